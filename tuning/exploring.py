"""A run's trials in pages, by filters and orders that stay quick at a million of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .models import Run, TrialColumns, TrialQuerySet, TrialRow, trial_columns
from .validation import Invalid

Order = Literal["number", "-number", "latency_s", "-latency_s"]
NO_LATENCY = "A failed trial has no latency."


@dataclass(frozen=True)
class Wanted:
    """Which trials: all conditions hold at once. `min` and `max` are seconds, both included; `task` is an index."""

    order: Order = "number"
    after: int = 0
    task: int | None = None
    failed: bool | None = None
    improved: bool | None = None
    min: float | None = None
    max: float | None = None

    @property
    def by_latency(self) -> bool:
        """Whether failed trials have no place in the order."""
        return self.order.endswith("latency_s")

    def check(self) -> None:
        """Raises `Invalid` for conditions that make no sense together."""
        ranged = self.min is not None or self.max is not None
        if self.failed and (ranged or self.by_latency):
            raise Invalid({"failed": NO_LATENCY + " Leave out min and max, and order by number."})
        if self.failed and self.improved:
            raise Invalid({"improved": "A failed trial improves nothing."})
        if self.min is not None and self.max is not None and self.min > self.max:
            raise Invalid({"max": "Must be at least min."})
        if self.after and self.by_latency:
            raise Invalid({"after": "Only with an order by number; pages by latency follow each other by cursor."})


def trials(run: Run, wanted: Wanted) -> TrialQuerySet:
    """The run's trials that are wanted, not yet in their order. Raises `Invalid` that names the parameter at fault."""
    wanted.check()
    found = run.trials.all() if wanted.task is None else run.trials.filter(task=_task_key(run, wanted.task))
    if wanted.after:
        found = found.filter(number__gt=wanted.after)
    if wanted.improved:  # Valid, all of them, and few.
        return found.filter(improved=True).between(wanted.min, wanted.max)
    if wanted.improved is False:
        found = found.filter(improved=False)
    if wanted.failed:
        return found.failed()
    if wanted.by_latency:
        return found.valid().between(wanted.min, wanted.max)
    if wanted.failed is False or wanted.min is not None or wanted.max is not None:
        return found.valid_by_number(wanted.min, wanted.max)
    return found


def columns(run: Run, rows: Iterable[TrialRow], after: int) -> TrialColumns:
    """Rows of the run as columns; `after` is `last` when there are none."""
    return trial_columns(rows, dict(run.tasks.values_list("pk", "index")), after)


def _task_key(run: Run, index: int) -> int:
    key = run.tasks.filter(index=index).values_list("pk", flat=True).first()
    if key is None:
        raise Invalid({"task": f"The run has no task {index}."})
    return key
