"""Checks and wording shared by the readers of all formats."""

from __future__ import annotations

from collections.abc import Iterable

from tuning.engines.wire.errors import Refused, is_out_of_memory


def listed(names: Iterable[str], most: int = 40) -> str:
    """The distinct names, sorted; those beyond `most` are only counted."""
    ordered = sorted(set(names))
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more


def check_dims(given: Iterable[str], open_dims: Iterable[str]) -> None:
    """Raises `Refused` if a value is given for a dimension that isn't open, or is missing for one that is."""
    values, open_dims = set(given), list(dict.fromkeys(open_dims))
    if unknown := values - set(open_dims):
        known = f"The open ones are: {listed(open_dims)}" if open_dims else "All of its dimensions are fixed"
        raise Refused(f"The model has no open dimension {listed(unknown)}. {known}.", open_dims)
    if missing := [name for name in open_dims if name not in values]:
        raise Refused(f"The model leaves dimensions open: {', '.join(missing)}. Give each a value.", open_dims)


def check_memory(error: Exception) -> None:
    """Raises `MemoryError` if that is what TVM's error means. Then the model isn't at fault."""
    if is_out_of_memory(error):
        raise MemoryError from error
