"""What an engine can't do, and what it doesn't take."""

from __future__ import annotations

from collections.abc import Iterable


class Impossible(Exception):
    """The run can't be done; `field` names the option at fault, if one is."""

    def __init__(self, error: str, field: str | None = None) -> None:
        super().__init__(error)
        self.field = field


class Refused(ValueError):
    """The network can't be tuned; the text says what and where.

    `dims` names the dimensions that its file leaves open, when it is about these.
    """

    def __init__(self, text: str, dims: Iterable[str] | None = None) -> None:
        super().__init__(text)
        self.dims = None if dims is None else list(dims)
