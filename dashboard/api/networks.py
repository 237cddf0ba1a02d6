"""What can be tuned, and how."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router
from typing_extensions import TypedDict

from tuning import services
from tuning.services import NetworkDict
from tuning.validation import OptionDict

from .shapes import ERRORS

router = Router(tags=["networks"])


class NetworkList(TypedDict):
    """Every network with its own options, and the options that a run of any of them takes."""

    items: list[NetworkDict]
    run_options: list[OptionDict]


@router.get("networks", response={200: NetworkList, **ERRORS})
def list_networks(request: HttpRequest) -> NetworkList:  # noqa: ARG001
    """The networks that can be tuned, and all options with their defaults and bounds."""
    return {"items": services.networks(), "run_options": [services.budget_option(), *services.tuning_options()]}
