"""What is left to gain from a run, task by task and in all."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from typing_extensions import TypedDict

from tuning.estimate import weighted
from tuning.models import Run, Task

from .best_known import BestKnownDict, best_known


class GainDict(TypedDict):
    """What is left to gain from a task, in seconds of the estimate.

    `if_equalled_s` is what the estimate would lose if the task were as fast as the best known elsewhere: 0 if it already is. It is null
    without either latency, or if the task's weight isn't recorded; `if_equalled` is the same as a share of the estimate.
    """

    task: int
    best_known: BestKnownDict | None
    if_equalled_s: float | None
    if_equalled: float | None


class VerdictDict(TypedDict):
    """What is left to gain from a run after trial `last`. `if_equalled_s` and `if_equalled` are sums over its tasks; null if none has any."""

    run: int
    last: int
    if_equalled_s: float | None
    if_equalled: float | None
    tasks: list[GainDict]


@dataclass(frozen=True)
class Gain:
    """What is left to gain from a task."""

    task: Task
    best_known: BestKnownDict | None
    estimate_s: float | None
    """The run's."""

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

    def to_dict(self) -> GainDict:
        return {
            "task": self.task.index,
            "best_known": self.best_known,
            "if_equalled_s": self.if_equalled_s,
            "if_equalled": self.if_equalled,
        }


@dataclass(frozen=True)
class Verdict:
    """What is left to gain from a run."""

    run: Run
    gains: list[Gain]

    @property
    def if_equalled_s(self) -> float | None:
        """Seconds of the estimate, if all tasks were as fast as the best known elsewhere; None if nothing is known of any."""
        known = [gain.if_equalled_s for gain in self.gains if gain.if_equalled_s is not None]
        return sum(known) if known else None

    @property
    def if_equalled(self) -> float | None:
        """The same as a share of the estimate."""
        return _share(self.if_equalled_s, self.run.estimated_latency_s)

    def to_dict(self) -> VerdictDict:
        return {
            "run": self.run.pk,
            "last": self.run.trials_done,
            "if_equalled_s": self.if_equalled_s,
            "if_equalled": self.if_equalled,
            "tasks": [gain.to_dict() for gain in self.gains],
        }


def verdict(run: Run, user: User | None) -> Verdict:
    """What is left to gain from the run, as far as the user sees what others have reached; None is the site itself."""
    known = best_known(run, user)
    tasks = run.tasks.select_related("run").defer("tensorir", "args").order_by("index")
    return Verdict(run, [Gain(task, known.get(task.workload_hash), run.estimated_latency_s) for task in tasks])


def _share(part_s: float | None, whole_s: float | None) -> float | None:
    return part_s / whole_s if part_s is not None and whole_s else None
