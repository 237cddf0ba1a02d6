"""Errors whose text is written for the user."""

from __future__ import annotations

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
