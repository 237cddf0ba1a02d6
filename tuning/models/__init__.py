"""What is stored, and the typed shapes in which it is shown."""

from .network import Network
from .run import LEASE, TELL_AGAIN, Run, RunQuerySet
from .shapes import Alert, ErrorDict, RunDelta, RunDict, TaskDict, TrialColumns
from .task import Record, Task
from .trial import Trial, TrialError, TrialQuerySet, level_of_detail, trial_columns

__all__ = (
    "LEASE",
    "TELL_AGAIN",
    "Alert",
    "ErrorDict",
    "Network",
    "Record",
    "Run",
    "RunDelta",
    "RunDict",
    "RunQuerySet",
    "Task",
    "TaskDict",
    "Trial",
    "TrialColumns",
    "TrialError",
    "TrialQuerySet",
    "level_of_detail",
    "trial_columns",
)
