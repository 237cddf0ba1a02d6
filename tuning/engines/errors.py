"""What an engine can't do."""

from __future__ import annotations


class Impossible(Exception):
    """The run can't be done; `field` names the option at fault, if one is."""

    def __init__(self, error: str, field: str | None = None) -> None:
        super().__init__(error)
        self.field = field
