"""What somebody else's log or script tells, as this site stores it: tasks, times and errors."""

from .tasks import TasksTold, ToldTask, shown_name

__all__ = ("TasksTold", "ToldTask", "shown_name")
