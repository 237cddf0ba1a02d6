"""What was measured of runs side by side: whether it can be, and what the figures say beside the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from tuning.models import MeasuredAgainDict, Run, SideBySide
from tuning.models.fleet import is_shared
from tuning.models.task import of_network
from tuning.noise import Difference, combined, noise
from tuning.reads.artifacts import other_tvm

from .shapes import BesideDict, FailedAgainDict, MeasuredBesideDict

Rounds = Sequence[float]
"""Seconds in each round."""


def trouble(runs: Sequence[Run]) -> str | None:
    """Why the best records of these runs, which are from `runs_of`, can't be measured side by side; None if they can."""
    for run in runs:
        if why := _unusable(run):
            return why
    for what, keys in (
        ("networks", {run.network_id for run in runs}),
        ("targets", {run.target_fingerprint for run in runs}),
        ("devices", {run.measures_on for run in runs}),
    ):
        if len(keys) > 1:
            return f"These runs are of different {what}: only what computes the same can be measured side by side."
    measured = [
        {task.function for task in of_network(run.tasks.all()) if task.best_latency_s is not None} for run in runs
    ]
    if not set.intersection(*measured):
        return "There is no task of which each of these runs has a valid record."
    return None


def _unusable(run: Run) -> str | None:
    if run.synthetic:
        return f"Run {run.pk} is synthetic: its records can't be measured."
    if not run.is_meta_schedule:
        tuner = f"an older TVM's {run.engine}"
        return f"Run {run.pk} was tuned with {tuner}: only MetaSchedule's records can be measured side by side."
    if is_shared(run.measures_on):
        return f"Run {run.pk} was measured on {run.device}: that is done side by side on the site's own machines only."
    if run.network_id is None:
        return f"The network of run {run.pk} isn't recorded, so nobody knows that it computes the same."
    why = other_tvm(run.versions)
    return f"Run {run.pk} can't be measured again. {why}" if why else None


class Latest(NamedTuple):
    """The newest measurement of exactly these runs, and the newest one that has finished; None if there is none."""

    newest: SideBySide | None
    finished: SideBySide | None


def latest(runs: Iterable[Run]) -> Latest:
    rows = SideBySide.objects.kept().of(run.pk for run in runs).select_related("machine", "created_by")
    newest = rows.first()
    if newest is None or newest.status == SideBySide.Status.FINISHED:
        return Latest(newest, newest)
    return Latest(newest, rows.filter(status=SideBySide.Status.FINISHED).first())


class Beside:
    """What a finished measurement says of these runs, compared with the baseline."""

    def __init__(self, row: SideBySide, runs: Sequence[Run], baseline: Run) -> None:
        self._row = row
        self._runs = runs
        self._base = baseline.pk
        found: dict[str, dict[int, MeasuredAgainDict]] = {}
        for one in row.measured:
            found.setdefault(one["workload_hash"], {})[one["run"]] = one
        self._found = found
        self._weights = {task.function: task.weight for task in of_network(baseline.tasks.all())}
        self._complete = [
            key for key, each in found.items() if all(run.pk in each and each[run.pk]["latencies_s"] for run in runs)
        ]

    def summary(self) -> BesideDict:
        """Where and when it was measured, and what is missing."""
        rounds = max((len(one["latencies_s"]) for one in self._row.measured), default=0)
        return {
            "id": self._row.pk,
            "at": self._row.finished_at.isoformat() if self._row.finished_at else "",
            "machine": self._row.machine.name if self._row.machine else None,
            "device": self._row.device,
            "rounds": rounds,
            "tasks": len(self._complete),
            "failed": [_failed(one) for one in self._row.measured if one["error"]],
            "outdated": [run.pk for run in self._runs if self._is_outdated(run)],
            "others_cores": self._row.others_cores,
            "cpus": self._row.cpus,
            "disturbed": self._row.is_disturbed,
        }

    def whole(self, run: Run) -> MeasuredBesideDict | None:
        """The sum of latency × weight over the tasks that could be measured of all runs; None if a weight isn't recorded."""
        weights = [self._weights.get(key) for key in self._complete]
        pairs = [self._pair(run, key) for key in self._complete]
        known = [_Pair(weight, *pair) for weight, pair in zip(weights, pairs, strict=True) if weight is not None]
        return _sum(known) if known and len(known) == len(weights) else None

    def task(self, run: Run, function: str) -> MeasuredBesideDict | None:
        """That of the task for a function (`Task.function`); its total and the difference of totals are null if its weight isn't recorded."""
        own, base = self._pair(run, function)
        if not own or not base:
            return None
        weight = self._weights.get(function)
        found = _sum([_Pair(1 if weight is None else weight, own, base)])
        if weight is None:
            return found | {"total_s": None, "difference_s": None}
        return found | {"latency_s": median(own)}

    def _pair(self, run: Run, function: str) -> tuple[Rounds, Rounds]:
        """The run's and the baseline's."""
        each = self._found.get(function, {})
        own, base = (each[key]["latencies_s"] if key in each else [] for key in (run.pk, self._base))
        return own, base

    def _is_outdated(self, run: Run) -> bool:
        """Whether it has other best records now than those that were measured."""
        best = {task.function: task.promised[0] for task in of_network(run.tasks.all())}
        mine: Mapping[str, int] = {
            one["workload_hash"]: one["trial"] for one in self._row.measured if one["run"] == run.pk
        }
        return any(best.get(key) != trial for key, trial in mine.items())


class _Pair(NamedTuple):
    """A task's weight, and what it took in each round, in a run and in the baseline."""

    weight: int
    own: Rounds
    base: Rounds

    @property
    def own_s(self) -> float:
        """Latency × weight."""
        return median(self.own) * self.weight

    @property
    def base_s(self) -> float:
        return median(self.base) * self.weight

    @property
    def ratios(self) -> list[float]:
        """By round: what disturbed both alike isn't noise of their difference."""
        return [own / base for own, base in zip(self.own, self.base, strict=True)]


def _sum(pairs: Sequence[_Pair]) -> MeasuredBesideDict:
    """Of the tasks' totals. Sums by round would have a tail from whichever task was disturbed in each.

    What disturbs a machine lasts longer than a measurement, so the noises of the tasks' latencies add up. Those of their ratios are by chance, and cancel
    each other out in part.
    """
    own_s, base_s = sum(pair.own_s for pair in pairs), sum(pair.base_s for pair in pairs)
    shares = [pair.own_s / own_s for pair in pairs]
    lasting = _scaled(shares, [noise(pair.own) for pair in pairs])
    chance = _scaled(shares, [noise(pair.ratios) for pair in pairs])
    difference = Difference(own_s / base_s - 1, combined(*chance))
    return {
        "latency_s": own_s,
        "total_s": own_s,
        "noise": None if None in lasting else sum(one for one in lasting if one is not None),
        "ratio": difference.change + 1,
        "difference_s": own_s - base_s,
        "difference_noise": difference.noise,
        "within_noise": difference.within_noise,
    }


def _scaled(shares: Iterable[float], noises: Iterable[float | None]) -> list[float | None]:
    """Each task's noise as a share of the sum; None if it isn't known."""
    return [None if one is None else share * one for share, one in zip(shares, noises, strict=True)]


def _failed(one: MeasuredAgainDict) -> FailedAgainDict:
    return {
        "run": one["run"],
        "workload_hash": one["workload_hash"],
        "trial": one["trial"],
        "error": one["error"] or "",
    }
