"""Errors that users cause or can fix."""

from typing import Optional


class Refused(Exception):
    """The run can't be tuned. `field` names the option at fault, if there is one."""

    def __init__(self, error: str, field: Optional[str] = None) -> None:
        super().__init__(error)
        self.field = field
