"""Networks that can be tuned: the built-in ones and uploaded models."""

from __future__ import annotations

from typing_extensions import TypedDict

from tuning.engines.wire.catalog import BUILTIN
from tuning.models import Network
from tuning.validation import OptionDict, options_of

UPLOADED = "Uploaded"
"""The family of models of one's own."""


class NetworkDict(TypedDict):
    """A network that can be tuned, with its options. `parameters` and `flop` are null until it was inspected."""

    name: str
    kind: str
    id: int | None
    """Of one's own model; a built-in one has many, one for each choice of its options."""
    title: str
    description: str
    family: str
    """What a form groups it by; networks of one family follow each other."""
    parameters: int | None
    flop: float | None
    options: list[OptionDict]


def builtin_networks() -> list[NetworkDict]:
    """Those that Tuneboard makes itself."""
    return [
        {
            "name": network.name,
            "kind": Network.Kind.BUILTIN.value,
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


def networks() -> list[NetworkDict]:
    """The built-in networks, then models of one's own."""
    return [*builtin_networks(), *map(_own, Network.objects.uploaded())]


def _own(network: Network) -> NetworkDict:
    given = "".join(f", {name} = {value}" for name, value in network.dims.items())
    shapes = "; ".join(f"{one['name']} {' × '.join(map(str, one['shape']))}" for one in network.inputs)
    return {
        "name": network.name,
        "kind": network.kind,
        "id": network.pk,
        "title": network.name,
        "description": f"{network.get_kind_display()} {network.file_name}{given}. Inputs: {shapes}.",
        "family": UPLOADED,
        "parameters": network.parameters,
        "flop": network.flop,
        "options": [],
    }
