"""The record of any trial, of which the run's record file has one a line."""

from .lines import line
from .of_trial import Missing, NotOfTask, TrialRecord, of_trial

__all__ = ("Missing", "NotOfTask", "TrialRecord", "line", "of_trial")
