"""Phrases that several rooms share."""

from __future__ import annotations

from collections.abc import Sequence


def numbered(keys: Sequence[int]) -> str:
    """`run 3`, or `runs 1, 2 and 3`; at least one."""
    *others, last = map(str, keys)
    return f"runs {', '.join(others)} and {last}" if others else f"run {last}"


def internal_error(error: BaseException) -> str:
    """What users see of an error that nobody foresaw."""
    return f"Internal error: {error!r}"
