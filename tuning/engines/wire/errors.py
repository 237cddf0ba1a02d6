"""Errors that users cause or can fix, and how to quote what TVM says."""

from __future__ import annotations

import errno
import string
from collections.abc import Iterable


class RunRefused(Exception):
    """The run can't be tuned. `field` names the option at fault, if there is one."""

    def __init__(self, error: str, field: str | None = None) -> None:
        super().__init__(error)
        self.field = field


class Refused(ValueError):
    """What was asked for, such as reading a model or building a library, can't be done. The text says why.

    `dims` names the dimensions that a model leaves open, if the error is about them.
    """

    def __init__(self, text: str, dims: Iterable[str] | None = None) -> None:
        super().__init__(text)
        self.dims = None if dims is None else list(dims)


def is_out_of_memory(error: BaseException) -> bool:
    """As Python, TVM's passes, or the operating system say it."""
    is_refused = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return is_refused or isinstance(error, MemoryError) or "bad_alloc" in str(error)


BLANK = string.whitespace + "\0"


def last_line(text: str, longest: int = 500) -> str:
    """The last line that isn't blank, where Python and TVM put the message of a traceback; empty if there is none.

    NVRTC ends its messages as C does, with a zero.
    """
    lines = (line.strip(BLANK) for line in reversed(text.splitlines()))
    return next(filter(None, lines), "")[:longest]


def in_one_line(error: BaseException) -> str:
    """`ValueError: the last line of its text`."""
    return f"{type(error).__name__}: {last_line(str(error)) or 'no reason given'}"
