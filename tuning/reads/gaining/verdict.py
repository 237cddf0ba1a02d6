"""What is left to gain from a run, task by task and in all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from django.contrib.auth.models import User
from typing_extensions import TypedDict

from tuning.estimate import total, weighted
from tuning.gain import Gain as Forecast
from tuning.models import MachineRoofline, Run, Task
from tuning.reads.machines import rooflines
from tuning.reads.machines.rooflines import RooflineDict

from . import expecting
from .best_known import BestKnownDict, best_known
from .expecting import ForecastDict
from .roofs import Roof, RoofDict, bounding, roof, roofline_of

MOST = 0.5
"""The tasks that hold what can still be gained are the fewest with at least this share of it."""
LEAST = 0.005
"""If less than this share of the estimate can be gained, it doesn't matter where."""


class GainDict(TypedDict):
    """What is left to gain from a task, in seconds of the estimate.

    `if_equalled_s` is what the estimate would lose if the task were as fast as the best known elsewhere: 0 if it already is. It is null
    without either latency, or if the task's weight isn't recorded; `if_equalled` is the same as a share of the estimate.
    `expected_s` is its part of the run's forecast, null without one. `roof` is what its machine could do, null if that isn't known.
    """

    task: int
    best_known: BestKnownDict | None
    if_equalled_s: float | None
    if_equalled: float | None
    expected_s: float | None
    roof: RoofDict | None


class HoldersDict(TypedDict):
    """The few tasks that hold most of what can still be gained, that with the largest part first, and their share of it."""

    tasks: list[int]
    share: float


class VerdictDict(TypedDict):
    """What is left to gain from a run after trial `last`.

    `if_equalled_s` and `if_equalled` are sums over its tasks; null if none has any. `to_roof_s` is what the estimate would lose if all of its
    tasks were at their roofs, `to_roof` that as a share of the estimate; null if a tuned task has none. `holders` is null if there is next to
    nothing to gain, or if it is spread over most tasks; `by_roof` says that it counts what is left to the roofs, since nothing else is known.
    `roofline` is null if it wasn't measured.
    """

    run: int
    last: int
    if_equalled_s: float | None
    if_equalled: float | None
    to_roof_s: float | None
    to_roof: float | None
    forecast: ForecastDict | None
    holders: HoldersDict | None
    by_roof: bool
    roofline: RooflineDict | None
    tasks: list[GainDict]


@dataclass(frozen=True)
class Gain:
    """What is left to gain from a task."""

    task: Task
    best_known: BestKnownDict | None
    expected_s: float | None
    estimate_s: float | None
    """The run's."""
    roof: Roof | None = None

    @property
    def if_equalled_s(self) -> float | None:
        """Seconds of the estimate, if the task were as fast as the best known elsewhere."""
        own_s = self.task.weighted_latency_s
        if not self.task.chosen or own_s is None or self.best_known is None:
            return None
        known_s = weighted(self.best_known["latency_s"], self.task.weight)
        return None if known_s is None else max(0.0, own_s - known_s)

    @property
    def if_equalled(self) -> float | None:
        """The same as a share of the estimate."""
        return _share(self.if_equalled_s, self.estimate_s)

    @property
    def room_s(self) -> float:
        """What can still be gained: what more trials are expected to bring, or what others have shown if that is more."""
        return max(self.expected_s or 0.0, self.if_equalled_s or 0.0)

    def to_dict(self) -> GainDict:
        return {
            "task": self.task.index,
            "best_known": self.best_known,
            "if_equalled_s": self.if_equalled_s,
            "if_equalled": self.if_equalled,
            "expected_s": self.expected_s,
            "roof": self.roof.to_dict() if self.roof else None,
        }


@dataclass(frozen=True)
class Holders:
    """The few tasks that hold most of what can still be gained, and their share of it."""

    tasks: list[Task]
    share: float

    @property
    def indices(self) -> list[int]:
        return [task.index for task in self.tasks]


@dataclass(frozen=True)
class Verdict:
    """What is left to gain from a run."""

    run: Run
    gains: list[Gain]
    forecast: Forecast | None
    roofline: MachineRoofline | None = None

    @property
    def if_equalled_s(self) -> float | None:
        """Seconds of the estimate, if all tasks were as fast as the best known elsewhere; None if nothing is known of any."""
        known = [gain.if_equalled_s for gain in self.gains if gain.if_equalled_s is not None]
        return sum(known) if known else None

    @property
    def if_equalled(self) -> float | None:
        """The same as a share of the estimate."""
        return _share(self.if_equalled_s, self.run.estimated_latency_s)

    @property
    def to_roof_s(self) -> float | None:
        """Seconds of the estimate, if all of its tasks were at their roofs; None unless all have one."""
        return total(gain.roof.gain_s if gain.roof else None for gain in self.gains if gain.task.chosen)

    @property
    def to_roof(self) -> float | None:
        """The same as a share of the estimate."""
        return _share(self.to_roof_s, self.run.estimated_latency_s)

    @property
    def by_roof(self) -> bool:
        """Whether nothing better is known than how far the tasks are from their roofs."""
        return self.forecast is None and self.if_equalled_s is None and self.to_roof_s is not None

    @property
    def holders(self) -> Holders | None:
        """Which few tasks to go on with; None if there is next to nothing to gain, or if it is spread over most tasks."""
        by_room = sorted(self.gains, key=lambda gain: -self._room_s(gain))
        sums_s = list(accumulate(map(self._room_s, by_room)))
        if not sums_s or sums_s[-1] <= LEAST * (self.run.estimated_latency_s or sums_s[-1]):
            return None
        count = next(place for place, sum_s in enumerate(sums_s, 1) if sum_s >= MOST * sums_s[-1])
        if count > sum(gain.task.chosen for gain in self.gains) / 2:
            return None
        return Holders([gain.task for gain in by_room[:count]], sums_s[count - 1] / sums_s[-1])

    def to_dict(self) -> VerdictDict:
        estimate_s, holders = self.run.estimated_latency_s, self.holders
        return {
            "run": self.run.pk,
            "last": self.run.trials_done,
            "if_equalled_s": self.if_equalled_s,
            "if_equalled": self.if_equalled,
            "to_roof_s": self.to_roof_s,
            "to_roof": self.to_roof,
            "forecast": expecting.to_dict(self.forecast, estimate_s) if self.forecast and estimate_s else None,
            "holders": {"tasks": holders.indices, "share": holders.share} if holders else None,
            "by_roof": self.by_roof,
            "roofline": rooflines.to_dict(self.roofline) if self.roofline else None,
            "tasks": [gain.to_dict() for gain in self.gains],
        }

    def _room_s(self, gain: Gain) -> float:
        """What can still be gained from the task, in seconds of the estimate."""
        if self.by_roof:
            return (gain.roof and gain.roof.gain_s) or 0.0
        return gain.room_s


def verdict(run: Run, user: User | None) -> Verdict:
    """What is left to gain from the run, as far as the user sees what others have reached; None is the site itself."""
    known = best_known(run, user)
    tasks = list(run.tasks.select_related("run").defer("tensorir").order_by("index"))
    roofline = roofline_of(run)
    roofs = {task.pk: roof(task, roofline) if roofline else None for task in tasks}
    told = expecting.expected(run, tasks, {key: one.gain_s for key, one in bounding(roofs, roofline).items()})
    parts = {task.pk: part_s for task, part_s in zip(told[0], told[1].by_task, strict=True)} if told else {}
    gains = [
        Gain(task, known.get(task.workload_hash), parts.get(task.pk), run.estimated_latency_s, roofs[task.pk])
        for task in tasks
    ]
    return Verdict(run, gains, told[1] if told else None, roofline)


def _share(part_s: float | None, whole_s: float | None) -> float | None:
    return part_s / whole_s if part_s is not None and whole_s else None
