"""Words that messages share: what runs and targets are called, and how long something takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SPACE = "\u00a0"
"""A no-break space keeps figure and unit on one line."""


def numbered(keys: Sequence[int]) -> str:
    """`run 3`, or `runs 1, 2 and 3`; at least one."""
    *others, last = map(str, keys)
    return f"runs {', '.join(others)} and {last}" if others else f"run {last}"


def internal_error(error: BaseException) -> str:
    """What users see of an error that nobody foresaw."""
    return f"Internal error: {error!r}"


def target_label(target: Any) -> str:
    """A target on one line: its tag, or its kind, processor and cores.

    A target that the engine hasn't resolved yet may be a string: `this` or a tag.
    """
    if not isinstance(target, dict):
        return "this machine" if target == "this" else str(target)
    if target.get("tag"):
        return str(target["tag"])
    parts = (target.get("kind"), _processor(target), _cores(target.get("num-cores")))
    return " · ".join(str(part) for part in parts if part)


def target_name(target: Any) -> str:
    """A target in one word: its tag, processor, architecture or kind."""
    if not isinstance(target, dict):
        return str(target)
    words = (target.get(key) for key in ("tag", "mcpu", "arch", "kind"))
    return next((str(word) for word in words if word), "target")


def duration(seconds: float) -> str:
    """Seconds in the two largest units."""
    if seconds < 10:
        return f"{seconds:.1f}{SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}{SPACE}d {hours}{SPACE}h"
    if hours:
        return f"{hours}{SPACE}h {minutes:02}{SPACE}min"
    if minutes:
        return f"{minutes}{SPACE}min {rest:02}{SPACE}s"
    return f"{rest}{SPACE}s"


def _processor(target: dict[str, Any]) -> str | None:
    named = target.get("mcpu") or target.get("arch")
    if named or not target.get("mtriple"):
        return named
    return f"baseline {target['mtriple'].split('-')[0]}"


def _cores(number: int | None) -> str | None:
    if not number:
        return None
    return "1 core" if number == 1 else f"{number} cores"
