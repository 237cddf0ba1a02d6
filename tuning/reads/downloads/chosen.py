"""Which tasks of a run a file is about."""

from __future__ import annotations

from tuning.models import Run, Task
from tuning.validation import Invalid

PIECE_ROWS = 20_000
"""Trials that are read at a time."""


def tasks_of(run: Run, index: int | None = None) -> list[Task]:
    """The run's tasks, or the one of this index. Raises `Invalid` if there is none."""
    tasks = list(run.tasks.defer("tensorir", "args").order_by("index"))
    if index is None:
        return tasks
    if chosen := [task for task in tasks if task.index == index]:
        return chosen
    raise Invalid({"task": f"The run has no task {index}."})


def prefix(task: int | None) -> str:
    """How the name of a file of one task begins."""
    return "" if task is None else f"task-{task}_"
