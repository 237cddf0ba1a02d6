"""What readers of all formats say alike."""

from __future__ import annotations

from collections.abc import Iterable

from tuning.engines.wire.errors import Refused


def listed(names: Iterable[str], most: int = 40) -> str:
    """Names in order and each once, with those beyond `most` counted."""
    ordered = sorted(set(names))
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more


def check_dims(given: Iterable[str], open_dims: Iterable[str]) -> None:
    """Raises `Refused` for a value of a dimension that isn't open, and for open ones without a value."""
    values, open_dims = set(given), list(dict.fromkeys(open_dims))
    if strange := values - set(open_dims):
        known = f"open are {listed(open_dims)}" if open_dims else "it has no open dimension"
        raise Refused(f"The model has no dimension {listed(strange)}: {known}.", open_dims)
    if missing := [name for name in open_dims if name not in values]:
        raise Refused(f"Dimensions left open: {', '.join(missing)}. Give each a value.", open_dims)


def check_memory(error: Exception) -> None:
    """Raises `MemoryError` when that is what an error of TVM's means: it isn't the model's fault."""
    if isinstance(error, MemoryError) or "bad_alloc" in str(error):
        raise MemoryError from error
