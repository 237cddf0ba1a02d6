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
from .task import Record, Task
from .tracker import TrackerSample
from .trial import Trial, TrialError, TrialQuerySet, level_of_detail, trial_columns

__all__ = (
    "LEASE",
    "TELL_AGAIN",
    "Alert",
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
    "TrackerSample",
    "Trial",
    "TrialColumns",
    "TrialError",
    "TrialQuerySet",
    "fingerprint",
    "level_of_detail",
    "networks_dir",
    "trial_columns",
)
