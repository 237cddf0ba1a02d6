"""Launches of runs, among the operations of runs: Ninja finds all methods of a path in one router."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Status

from dashboard.accounts import LAUNCH
from dashboard.api import bodies, shapes
from dashboard.api.auth import needs
from dashboard.api.runs import router
from dashboard.api.shapes import ERRORS
from dashboard.http.access import person
from tuning.actions import advice, runs
from tuning.actions.advice import CheckDict
from tuning.actions.launches import templates
from tuning.models import RunDict

__all__ = ("router",)


@router.post("runs", response={201: RunDict, **ERRORS}, auth=needs(LAUNCH), openapi_extra=bodies.LAUNCH)
def launch_run(request: HttpRequest) -> Status[RunDict]:
    """Queue a run. Errors are listed by field; then nothing is queued."""
    run = runs.launch(_order(request), person(request))
    return Status(201, run.to_full_dict())


@router.post(
    "runs/variants", response={201: shapes.VariantRuns, **ERRORS}, auth=needs(LAUNCH), openapi_extra=bodies.VARIANTS
)
def launch_variants(request: HttpRequest) -> Status[shapes.VariantRuns]:
    """Queue a run for each combination of the values in `variants`. If one of them is wrong, none is queued."""
    order = _order(request)
    variants = order.pop("variants", None)
    launched, tag = runs.launch_variants(order, variants, person(request))
    return Status(201, {"items": [run.to_full_dict() for run in launched], "tag": tag})


@router.post("runs/check", response={200: CheckDict, **ERRORS}, auth=needs(LAUNCH), openapi_extra=bodies.LAUNCH)
def check_launch(request: HttpRequest) -> CheckDict:
    """The errors and warnings of a launch, without launching."""
    return advice.check(_order(request), person(request))


def _order(request: HttpRequest) -> dict[str, Any]:
    """The body, with what its template has. Raises `Invalid`."""
    return templates.filled(bodies.json_object(request), person(request))
