"""Which model a quantized one was made from: its libraries are compared with that."""

from __future__ import annotations

from typing import Any

from tuning import audit
from tuning.models import Network
from tuning.validation import Invalid


def candidates(network: Network) -> list[Network]:
    """The project's models that it may have been made from, by name."""
    same = Network.objects.filter(project=network.project_id, kind=Network.Kind.ONNX).exclude(pk=network.pk)
    return [one for one in same.order_by("name") if _trouble(network, one) is None]


def choose(network: Network, key: Any) -> None:
    """Have its libraries compared with the model of this id, or with none if it is None. Raises `Invalid`."""
    chosen = None if key is None else _found(network, key)
    if network.float_model_id == (chosen and chosen.pk):
        return
    with audit.act("network.float_model", network, float_model=chosen and chosen.name):
        network.float_model = chosen
        network.save(update_fields=["float_model"])


def _found(network: Network, key: Any) -> Network:
    if not network.is_quantized:
        raise _invalid(f"{network.name} isn't quantized: only an ONNX file in the QDQ format has a float model.")
    whole = isinstance(key, int) and not isinstance(key, bool) and key.bit_length() < 64
    found = Network.objects.filter(project=network.project_id, pk=key).first() if whole else None
    if found is None:
        raise _invalid("The project has no such network.")
    if trouble := _trouble(network, found):
        raise _invalid(trouble)
    return found


def _trouble(network: Network, other: Network) -> str | None:
    """Why it can't be the float model."""
    if other.pk == network.pk or other.kind != Network.Kind.ONNX:
        return "Must be another network, from an ONNX file."
    if other.is_quantized:
        return f"{other.name} is quantized, too."
    ours, theirs = ([(one["shape"], one["dtype"]) for one in each.inputs] for each in (network, other))
    if ours != theirs:
        return f"{other.name} takes other inputs: {_listed(other)}, and {network.name} {_listed(network)}."
    return None


def _listed(network: Network) -> str:
    return ", ".join(f"{one['name']} {one['shape']} {one['dtype']}" for one in network.inputs)


def _invalid(why: str) -> Invalid:
    return Invalid({"float_model": why})
