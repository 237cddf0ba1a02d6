"""A run's trials as points of a scatter: at most a given number for any window of any run.

Trials whose numbers have the most trailing zero bits stand for the others, so zooming in keeps the points that were visible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from django.db.models import OuterRef, Subquery
from typing_extensions import TypedDict

from tuning.models import Run, Task, Trial, TrialQuerySet, step_for
from tuning.models.trial import FEW
from tuning.validation import Invalid

from .exploring import Conditions, machine_key

POINTS = 6000
MANY = 100_000
"""Most index entries to scan, which takes some tens of milliseconds."""
COARSE = 32
"""One in so many entries is counted to estimate their number."""
RARE = 16
"""If less than 1/16 of the points are failed trials, these are searched separately."""


@dataclass(frozen=True)
class Window(Conditions):
    """Trials of a range of numbers, inclusive, and of tasks by index; no tasks means all.

    Failed trials, which have no latency, are part of any range of latencies, unless `failed` is false.
    """

    first: int = 1
    last: int | None = None
    tasks: tuple[int, ...] = ()

    @property
    def selective(self) -> bool:
        """Whether trials are chosen by anything but number, latency and task."""
        return bool(self.machine) or not (self.failed is None and self.improved is None and self.noisy is None)

    @property
    def may_fail(self) -> bool:
        """Whether failed trials are among those chosen."""
        return self.failed is not False and not self.improved and not self.noisy

    def check(self) -> None:
        """Raises `Invalid` for limits that are reversed and conditions that contradict each other."""
        super().check()
        if self.last is not None and self.last < self.first:
            raise Invalid({"to": "Must be at least from."})


class ScatterDict(TypedDict):
    """Trials of a window as columns, by number; latencies rounded to five digits, `at_s` to milliseconds.

    `last` is the run's last trial. The window has `total` trials; if that isn't `exact`, it was estimated from a sample.
    `shown` of them are here: the improvements of each task, or else its fastest trial, failed ones, and one in `step` of the rest.
    `machine` is empty unless several machines measured the run, `noisy` unless some of its trials are noisy.
    """

    run: int
    last: int
    shown: int
    total: int
    exact: bool
    step: int
    number: list[int]
    task: list[int]
    latency_s: list[float | None]
    error: list[str | None]
    at_s: list[float | None]
    machine: list[str | None]
    noisy: list[bool]


class Row(NamedTuple):
    """The columns of a trial that are drawn."""

    number: int
    task_id: int
    latency_s: float | None
    error_kind: str | None
    at_s: float | None
    machine_id: int | None
    noisy: bool
    improved: bool


class Found(NamedTuple):
    """Rows of which each stands for `step` trials."""

    rows: list[Row]
    step: int

    @property
    def total(self) -> int:
        """How many trials they stand for; exact if `step` is 1."""
        return len(self.rows) * self.step


def scatter(run: Run, window: Window, points: int = POINTS) -> ScatterDict:
    """At most `points` trials of the window. Raises `Invalid` that names the parameter at fault."""
    window.check()
    view = _View(run, window, points)
    found = {row.number: row for row in (*view.sample.rows, *view.failures.rows, *view.bests())}
    rows = [found[number] for number in sorted(found)]
    total, exact = view.total()
    machines = run.measurers().names()
    return {
        "run": run.pk,
        "last": run.trials_done,
        "shown": len(rows),
        "total": total,
        "exact": exact,
        "step": view.sample.step,
        "number": [row.number for row in rows],
        "task": [view.index_of[row.task_id] for row in rows],
        "latency_s": [None if row.latency_s is None else float(f"{row.latency_s:.5g}") for row in rows],
        "error": [row.error_kind for row in rows],
        "at_s": [None if row.at_s is None else round(row.at_s, 3) for row in rows],
        "machine": [machines.get(row.machine_id) for row in rows] if len(machines) > 1 else [],
        "noisy": [row.noisy for row in rows] if run.trials_noisy else [],
    }


class _View:
    """The queries for one window. Each uses one index and reads only as much as `points` require."""

    def __init__(self, run: Run, window: Window, points: int) -> None:
        self.run = run
        self.window = window
        self.points = points
        counted = list(run.tasks.order_by().values_list("pk", "index", "failed"))
        self.index_of = {key: index for key, index, _ in counted}
        self.numbers = range(window.first, min(window.last or run.trials_done, run.trials_done) + 1)
        self.tasks = [key for key, index in self.index_of.items() if index in window.tasks]
        if missing := set(window.tasks) - set(self.index_of.values()):
            raise Invalid({"task": f"The run has no task {min(missing)}."})
        self.machine = machine_key(run, window.machine) if window.machine else None
        self.failed = sum(failed for _, index, failed in counted if not window.tasks or index in window.tasks)

    @property
    def narrow(self) -> bool:
        """Whether there are few enough numbers to scan all of them."""
        return len(self.numbers) <= FEW

    @cached_property
    def grid(self) -> Found:
        """The trials of the window whose numbers are multiples of a power of two, failed ones included."""
        step = step_for(len(self.numbers), self.points * 3 // 4)
        trials = self.run.trials.order_by()
        if step == 1:
            trials = self._in_numbers(trials)
        else:
            first = -(-self.numbers.start // step) * step
            trials = trials.filter(number__one_of=range(first, self.numbers.stop, step))
        return Found([row for row in _rows(trials) if self._holds(row)], step)

    @cached_property
    def sample(self) -> Found:
        """Trials from all of the window; only valid ones if latencies are limited."""
        window = self.window
        if not window.ranged and not self.tasks and not window.selective:
            return self.grid
        trials = self._chosen(self._of_tasks()).between(window.min, window.max)
        # The index by latency is used only if that finds fewer trials than the range of numbers.
        trials = trials.valid() if window.ranged and not self.narrow else self._in_numbers(trials)
        many = trials.order_by()[MANY : MANY + 1].exists()
        found = None if many else self._looked_up(trials, self.points * 3 // 4)
        return found or Found(
            [row for row in self.grid.rows if row.latency_s is not None or not window.ranged], self.grid.step
        )

    @cached_property
    def failures(self) -> Found:
        """Failed trials, if the sample has none or too few to show where they are."""
        if not self.window.may_fail:
            return Found([], 1)
        if not self.window.ranged and (self.window.failed or self.sample.step == 1 or self._enough(self.sample)):
            return Found([], 1)
        trials = self._chosen(self._of_tasks()).failed()
        if self.narrow:
            return self._looked_up(self._in_numbers(trials), self.points // 8)
        if self.failed <= FEW or not self._enough(self.grid):
            return self._looked_up(trials, self.points // 8)
        return Found([row for row in self.grid.rows if row.latency_s is None], self.grid.step)

    def _enough(self, found: Found) -> bool:
        return sum(row.latency_s is None for row in found.rows) > self.points // RARE

    def bests(self) -> list[Row]:
        """Trials that must not be thinned out: improvements (the latest, if many) and the fastest trial of each other task."""
        if self.sample.step == 1:
            return []
        improvements = self.run.trials.filter(improved=True).numbered(self.numbers).order_by("number")
        found = [row for row in _rows(improvements) if self._holds(row)]
        # A task's last improvement in the window is its fastest trial there.
        last = {row.task_id: row for row in found}
        others = [] if self.window.ranged or self.window.failed else set(self.tasks or self.index_of) - last.keys()
        kept = {row.number: row for row in (*last.values(), *self._fastest(others), *reversed(found))}
        return list(kept.values())[: self.points // 8]

    def total(self) -> tuple[int, bool]:
        """The number of trials in the window, and whether it is exact."""
        if not self.window.ranged and not self.window.selective:
            return self._counted() if self.tasks else len(self.numbers), True
        parts = (self.sample, self.failures) if self.window.ranged else (self.sample,)
        return sum(part.total for part in parts), all(part.step == 1 for part in parts)

    def _counted(self) -> int:
        """The trials of the chosen tasks in the range of numbers, computed from each task's own count of trials."""
        own = self._in_numbers(Trial.objects.filter(task=OuterRef("pk")))
        first, last = (Subquery(own.order_by(order).values("nth")[:1]) for order in ("number", "-number"))
        ends = Task.objects.filter(pk__in=self.tasks).order_by().annotate(first=first, last=last)
        return sum(last - first + 1 for first, last in ends.values_list("first", "last") if first)

    def _holds(self, row: Row) -> bool:
        window = self.window
        if self.tasks and row.task_id not in self.tasks:
            return False
        if self.machine not in (None, row.machine_id):
            return False
        if any(wanted not in (None, value) for wanted, value in zip(self._wanted, _nature(row), strict=True)):
            return False
        least, most = window.min or 0.0, math.inf if window.max is None else window.max
        return row.latency_s is None or least <= row.latency_s <= most

    @property
    def _wanted(self) -> tuple[bool | None, ...]:
        return self.window.failed, self.window.improved, self.window.noisy

    def _chosen(self, trials: TrialQuerySet) -> TrialQuerySet:
        """Those that hold all conditions except ranges."""
        failed, improved, noisy = self._wanted
        if failed is not None:
            trials = trials.failed() if failed else trials.valid()
        if improved is not None:
            trials = trials.filter(improved=improved)
        if noisy is not None:
            trials = trials.filter(noisy=noisy)
        return trials if self.machine is None else trials.filter(machine=self.machine)

    def _of_tasks(self) -> TrialQuerySet:
        return Trial.objects.filter(task__in=self.tasks) if self.tasks else self.run.trials.all()

    def _in_numbers(self, trials: TrialQuerySet) -> TrialQuerySet:
        return trials.filter(number__range=(self.numbers.start, self.numbers.stop - 1))

    def _looked_up(self, trials: TrialQuerySet, most: int) -> Found:
        """At most `most` of these trials in the range of numbers, by the finest step that allows it."""
        inside = trials.numbered(self.numbers).order_by()

        def numbers(step: int) -> list[int]:
            return list(inside.every(step).values_list("number", flat=True)[: most + 1])

        step = step_for(len(numbers(COARSE)) * COARSE, most)
        while len(found := numbers(step)) > most:
            step *= 2
        while step > 1 and len(found) <= most // 2 and len(finer := numbers(step // 2)) <= most:
            found, step = finer, step // 2
        return Found(self._numbered(found), step)

    def _fastest(self, tasks: Iterable[int]) -> list[Row]:
        """The fastest trial in the window of each of these tasks."""
        own = self._chosen(Trial.objects.filter(task=OuterRef("pk")))
        own = (
            self._in_numbers(own).filter(latency_s__isnull=False) if self.narrow else own.valid().numbered(self.numbers)
        )
        first = Subquery(own.order_by("latency_s", "number").values("number")[:1])
        found = Task.objects.filter(pk__in=list(tasks)).order_by().annotate(fastest=first)
        return self._numbered([number for number in found.values_list("fastest", flat=True) if number is not None])

    def _numbered(self, numbers: Sequence[int]) -> list[Row]:
        return _rows(self.run.trials.filter(number__one_of=numbers).order_by())


def _nature(row: Row) -> tuple[bool, bool, bool]:
    """Whether the trial failed, was an improvement, and is noisy."""
    return row.latency_s is None, row.improved, row.noisy


def _rows(trials: TrialQuerySet) -> list[Row]:
    return list(map(Row._make, trials.values_list(*Row._fields)))
