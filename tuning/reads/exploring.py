"""A run's trials in pages, by filters and orders that stay quick at a million of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tuning.models import Run, Trial, TrialColumns, TrialQuerySet, TrialRow, trial_columns
from tuning.validation import Invalid

TrialOrder = Literal["number", "-number", "latency_s", "-latency_s", "task", "-task", "at_s", "-at_s"]
COLUMNS = {"number": "number", "latency_s": "latency_s", "task": "task_id", "at_s": "number"}
"""What gives each order: a run's tasks have their keys in the order of their indices, and its trials are numbered as they are reported."""
NO_LATENCY = "A failed trial has no latency."


@dataclass(frozen=True)
class TrialFilter:
    """Which trials: all conditions hold at once. `min` and `max` are seconds, both included; `task` is an index."""

    order: TrialOrder = "number"
    after: int = 0
    task: int | None = None
    failed: bool | None = None
    improved: bool | None = None
    min: float | None = None
    max: float | None = None

    @property
    def column(self) -> str:
        """What the trials are sorted by, `-` for descending. Those of one task are by number."""
        name = self.order.lstrip("-")
        column = "number" if name == "task" and self.task is not None else COLUMNS[name]
        return f"-{column}" if self.order.startswith("-") else column

    @property
    def ranged(self) -> bool:
        """Whether failed trials, which have no latency, are left out."""
        return self.min is not None or self.max is not None

    @property
    def by_latency(self) -> bool:
        """Whether failed trials have no place in the order."""
        return self.column.endswith("latency_s")

    @property
    def by_task(self) -> bool:
        """Whether the trials of one task follow those of another."""
        return self.column.endswith("task_id")

    def check(self) -> None:
        """Raises `Invalid` for conditions that make no sense together."""
        if self.failed and (self.ranged or self.by_latency):
            raise Invalid({"failed": NO_LATENCY + " Leave out min and max, and order by number."})
        if self.failed and self.improved:
            raise Invalid({"improved": "A failed trial improves nothing."})
        if self.min is not None and self.max is not None and self.min > self.max:
            raise Invalid({"max": "Must be at least min."})
        if self.after and (self.by_latency or self.by_task):
            raise Invalid({"after": "Only with an order by number or time; other pages follow each other by cursor."})


def trials(run: Run, wanted: TrialFilter) -> TrialQuerySet:
    """The run's trials that are wanted, not yet in their order. Raises `Invalid` that names the parameter at fault."""
    wanted.check()
    found = run.trials.all() if wanted.task is None else run.trials.filter(task=_task_key(run, wanted.task))
    if wanted.after:
        found = found.filter(number__gt=wanted.after)
    if wanted.improved:  # Valid, all of them, and few.
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
    """Without improvements, when only others are wanted."""
    return found.filter(improved=False) if wanted.improved is False else found


def columns(run: Run, rows: Iterable[TrialRow], after: int) -> TrialColumns:
    """Rows of the run as columns; `after` is `last` when there are none."""
    return trial_columns(rows, dict(run.tasks.values_list("pk", "index")), after)


def _task_key(run: Run, index: int) -> int:
    key = run.tasks.filter(index=index).values_list("pk", flat=True).first()
    if key is None:
        raise Invalid({"task": f"The run has no task {index}."})
    return key
