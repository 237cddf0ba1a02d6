"""The record of any trial, of which the run's record file has one a line."""

from .deciding import Decided, Space, Tried, decided
from .lines import line
from .of_trial import Missing, NotOfTask, TrialRecord, of_trial

__all__ = ("Decided", "Missing", "NotOfTask", "Space", "TrialRecord", "Tried", "decided", "line", "of_trial")
