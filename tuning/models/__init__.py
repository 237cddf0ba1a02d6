"""What is stored, and the typed shapes in which it is shown."""

from .extraction import ExtractedTask, Extraction
from .network import Network, fingerprint, networks_dir
from .run import LEASE, TELL_AGAIN, Run, RunQuerySet
from .shapes import (
    Alert,
    ErrorDict,
    ExtractionDict,
    NetworkDetail,
    RunDelta,
    RunDict,
    TaskDict,
    TrialColumns,
)
from .task import Doubt, Record, Task, TaskQuerySet, doubt
from .tracker import TrackerSample
from .trial import Trial, TrialError, TrialQuerySet, level_of_detail, trial_columns

__all__ = (
    "LEASE",
    "TELL_AGAIN",
    "Alert",
    "Doubt",
    "ErrorDict",
    "ExtractedTask",
    "Extraction",
    "ExtractionDict",
    "Network",
    "NetworkDetail",
    "Record",
    "Run",
    "RunDelta",
    "RunDict",
    "RunQuerySet",
    "Task",
    "TaskDict",
    "TaskQuerySet",
    "TrackerSample",
    "Trial",
    "TrialColumns",
    "TrialError",
    "TrialQuerySet",
    "doubt",
    "fingerprint",
    "level_of_detail",
    "networks_dir",
    "trial_columns",
)
