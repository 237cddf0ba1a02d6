"""The networks that can be tuned: built-in ones and uploaded models."""

from __future__ import annotations

from django.contrib.auth.models import User
from typing_extensions import TypedDict

from tuning.engines.wire.engines import ENGINES, META_SCHEDULE
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Operators
from tuning.host import operators as listed
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


class EngineDict(TypedDict):
    """An engine with the networks that it builds itself and the options of its runs, besides trials and time limit."""

    name: str
    title: str
    description: str
    needs_interpreter: bool
    """Whether it runs under an interpreter with an older TVM; see GET /api/v1/devices."""
    networks: list[NetworkDict]
    options: list[OptionDict]


class OnnxOperatorDict(TypedDict):
    """An operator that ONNX files may have."""

    name: str
    lowered: str | None
    """If Tuneboard lowers it to others, because TVM's importer doesn't know it: with which limits."""


class OperatorsDict(TypedDict):
    """The operators that uploaded models may have, with the installed version of TVM."""

    tvm: str
    onnx: list[OnnxOperatorDict]
    relax: list[str]
    """Without `relax.` before the name."""


class Untold(Exception):
    """TVM gave no answer; the message says why."""


def operators() -> OperatorsDict:
    """Takes seconds the first time. Raises `Untold` and `Busy`."""
    try:
        return _operators(listed.operators())
    except Refused as refused:
        raise Untold(f"TVM can't say which operators it knows. {refused}") from refused


def known_operators() -> OperatorsDict | None:
    """As `operators`, if TVM was asked already."""
    known = listed.known()
    return _operators(known) if known else None


def _operators(found: Operators) -> OperatorsDict:
    onnx: list[OnnxOperatorDict] = [{"name": one.name, "lowered": one.lowered} for one in found.onnx]
    return {"tvm": listed.version(), "onnx": onnx, "relax": found.relax}


def engines() -> list[EngineDict]:
    return [
        {
            "name": engine.name,
            "title": engine.title,
            "description": engine.description,
            "needs_interpreter": engine.legacy,
            "networks": builtin_networks(engine.name),
            "options": options_of(engine.options),
        }
        for engine in ENGINES.values()
    ]


def builtin_networks(engine: str = META_SCHEDULE) -> list[NetworkDict]:
    """Those that the engine builds itself."""
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
        for network in ENGINES[engine].networks.values()
    ]


def networks(user: User | None, engine: str = META_SCHEDULE) -> list[NetworkDict]:
    """The engine's built-in networks, then the uploaded models of the user's projects."""
    models = Network.objects.uploaded().seen_by(user).select_related("project").order_by("project__name", "name")
    return [*builtin_networks(engine), *map(_uploaded, models)]


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
