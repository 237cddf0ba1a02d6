"""The networks that can be tuned: built-in ones and uploaded models."""

from __future__ import annotations

from django.contrib.auth.models import User
from typing_extensions import TypedDict

from tuning.engines.wire.catalog import BUILTIN
from tuning.models import Network
from tuning.validation import OptionDict, options_of

UPLOADED = "Uploaded"
"""The family of uploaded models."""


class NetworkDict(TypedDict):
    """A network with its options. `parameters` and `flop` are null for built-in networks."""

    name: str
    kind: str
    project: str | None
    """Of an uploaded model."""
    id: int | None
    """Of an uploaded model. A built-in network has one id for each choice of its options."""
    title: str
    description: str
    family: str
    """The group in a form; networks of a family are adjacent."""
    parameters: int | None
    flop: float | None
    options: list[OptionDict]


def builtin_networks() -> list[NetworkDict]:
    return [
        {
            "name": network.name,
            "kind": Network.Kind.BUILTIN.value,
            "project": None,
            "id": None,
            "title": network.title,
            "description": network.description,
            "family": network.family,
            "parameters": None,
            "flop": None,
            "options": options_of(network.options),
        }
        for network in BUILTIN.values()
    ]


def networks(user: User | None) -> list[NetworkDict]:
    """The built-in networks, then the uploaded models of the user's projects."""
    models = Network.objects.uploaded().seen_by(user).select_related("project").order_by("project__name", "name")
    return [*builtin_networks(), *map(_uploaded, models)]


def _uploaded(network: Network) -> NetworkDict:
    given = "".join(f", {name} = {value}" for name, value in network.dims.items())
    shapes = "; ".join(f"{one['name']} {' × '.join(map(str, one['shape']))}" for one in network.inputs)
    return {
        "name": network.name,
        "kind": network.kind,
        "project": network.project.name if network.project else None,
        "id": network.pk,
        "title": network.name,
        "description": f"{network.get_kind_display()} {network.file_name}{given}. Inputs: {shapes}.",
        "family": UPLOADED,
        "parameters": network.parameters,
        "flop": network.flop,
        "options": [],
    }
