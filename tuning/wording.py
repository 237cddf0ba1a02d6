"""What runs and targets are called in sentences, lists and file names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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


def _processor(target: dict[str, Any]) -> str | None:
    named = target.get("mcpu") or target.get("arch")
    if named or not target.get("mtriple"):
        return named
    return f"baseline {target['mtriple'].split('-')[0]}"


def _cores(number: int | None) -> str | None:
    if not number:
        return None
    return "1 core" if number == 1 else f"{number} cores"
