"""Regression checks: when they are due, and what they have found."""

from .checks import CheckDict, CheckResultDict, RegressionCheck, database_now, drawn_key
from .due import HOURS, WEEKDAYS, Schedule, next_due
from .results import CheckResult
from .words import AT, told

__all__ = (
    "AT",
    "HOURS",
    "WEEKDAYS",
    "CheckDict",
    "CheckResult",
    "CheckResultDict",
    "RegressionCheck",
    "Schedule",
    "database_now",
    "drawn_key",
    "next_due",
    "told",
)
