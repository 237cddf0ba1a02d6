"""Errors that users cause or can fix, and how to quote what TVM says."""

from __future__ import annotations

from collections.abc import Iterable


class Impossible(Exception):
    """The run can't be done; `field` names the option at fault, if there is one."""

    def __init__(self, error: str, field: str | None = None) -> None:
        super().__init__(error)
        self.field = field


class Refused(ValueError):
    """The question has no answer, such as a network that can't be tuned; the text says what is wrong and where.

    `dims` names the dimensions that a model's file leaves open, if these are the reason.
    """

    def __init__(self, text: str, dims: Iterable[str] | None = None) -> None:
        super().__init__(text)
        self.dims = None if dims is None else list(dims)


def last_line(text: str, longest: int = 500) -> str:
    """The last line that isn't blank, where Python and TVM put the message of a traceback; empty if there is none."""
    lines = (line.strip() for line in reversed(text.splitlines()))
    return next(filter(None, lines), "")[:longest]


def in_one_line(error: BaseException) -> str:
    """`ValueError: the last line of its text`."""
    return f"{type(error).__name__}: {last_line(str(error)) or 'no reason given'}"
