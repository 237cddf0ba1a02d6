"""Filter and sort a run's trials, quickly even if there are a million."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tuning.models import Run, Trial, TrialColumns, TrialQuerySet, TrialRow, trial_columns
from tuning.validation import Invalid

TrialOrder = Literal["number", "-number", "latency_s", "-latency_s", "task", "-task", "at_s", "-at_s"]
COLUMNS = {"number": "number", "latency_s": "latency_s", "task": "task_id", "at_s": "number"}
"""The column of each order. Keys of tasks have the order of their indices, numbers of trials the order of their times."""
NO_LATENCY = "A failed trial has no latency."


@dataclass(frozen=True)
class Conditions:
    """Which trials a table or a chart has; all must hold. `min` and `max` are seconds, inclusive."""

    failed: bool | None = None
    improved: bool | None = None
    noisy: bool | None = None
    min: float | None = None
    max: float | None = None
    machine: str = ""
    """The name of one of the run's machines; empty for any."""

    @property
    def ranged(self) -> bool:
        """Whether latencies are limited."""
        return self.min is not None or self.max is not None

    def check(self) -> None:
        """Raises `Invalid` for conditions that contradict each other."""
        if self.failed and self.improved:
            raise Invalid({"improved": "A failed trial is never an improvement."})
        if self.failed and self.noisy:
            raise Invalid({"noisy": "A failed trial is never noisy."})
        if self.min is not None and self.max is not None and self.min > self.max:
            raise Invalid({"max": "Must not be below the minimum."})


@dataclass(frozen=True)
class TrialFilter(Conditions):
    """The trials of a table. Failed ones are part of no range of latencies. `task` is an index."""

    order: TrialOrder = "number"
    after: int = 0
    task: int | None = None

    @property
    def column(self) -> str:
        """The column to sort by, with `-` for descending. Trials of a single task are sorted by number instead of task."""
        name = self.order.lstrip("-")
        column = "number" if name == "task" and self.task is not None else COLUMNS[name]
        return f"-{column}" if self.order.startswith("-") else column

    @property
    def by_latency(self) -> bool:
        """Whether the order is by latency, which leaves out failed trials."""
        return self.column.endswith("latency_s")

    @property
    def by_task(self) -> bool:
        return self.column.endswith("task_id")

    def check(self) -> None:
        """Raises `Invalid` for conditions that contradict each other."""
        super().check()
        if self.failed and (self.ranged or self.by_latency):
            raise Invalid({"failed": NO_LATENCY + " Leave out the range of latencies, and order by number."})
        if self.after and (self.by_latency or self.by_task):
            raise Invalid(
                {"after": "Needs the order number or at_s. For the next page of another order, use the cursor."}
            )


def trials(run: Run, wanted: TrialFilter) -> TrialQuerySet:
    """The matching trials, not sorted yet. Raises `Invalid` that names the parameter at fault."""
    wanted.check()
    found = _indexed(run, wanted)
    if wanted.noisy is not None:
        found = found.among_noisy(run) if wanted.noisy else found.filter(noisy=False)
    # Without an index, which each trial of each run would pay for: all trials of the run are read.
    return found.filter(machine=machine_key(run, wanted.machine)) if wanted.machine else found


def _indexed(run: Run, wanted: TrialFilter) -> TrialQuerySet:
    found = run.trials.all() if wanted.task is None else run.trials.filter(task=_task_key(run, wanted.task))
    if wanted.after:
        found = found.filter(number__gt=wanted.after)
    if wanted.improved:  # All of these are valid, and there are few.
        return found.filter(improved=True).between(wanted.min, wanted.max)
    if wanted.by_latency:
        return _others(found, wanted).valid().between(wanted.min, wanted.max)
    passed = Trial.objects.task_by_task(run) if wanted.by_task else found
    if wanted.failed:
        return passed.failed()
    if wanted.failed is False or wanted.ranged:
        few = found.gathered(wanted.min, wanted.max)
        return _others(passed.passing(wanted.min, wanted.max) if few is None else few, wanted)
    return _others(passed, wanted)


def _others(found: TrialQuerySet, wanted: TrialFilter) -> TrialQuerySet:
    """Leaves out improvements if the filter asks for that."""
    return found.filter(improved=False) if wanted.improved is False else found


def columns(run: Run, rows: Iterable[TrialRow], after: int) -> TrialColumns:
    """The rows as columns; without rows `last` is `after`."""
    return trial_columns(rows, dict(run.tasks.values_list("pk", "index")), run.measurers().names(), after)


def machine_key(run: Run, name: str) -> int:
    """Raises `Invalid` if the run has no such machine."""
    known = dict(run.measurers().values_list("name", "pk"))  # PostgreSQL refuses to look for a name with a NUL.
    if name not in known:
        raise Invalid({"machine": f"No trial of the run was measured by a machine {name}."})
    return known[name]


def _task_key(run: Run, index: int) -> int:
    key = run.tasks.filter(index=index).values_list("pk", flat=True).first()
    if key is None:
        raise Invalid({"task": f"The run has no task {index}."})
    return key
