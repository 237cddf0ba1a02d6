"""How a tuning went, of either side, and the figures that follow from it. No Django here."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec


class Measured(msgspec.Struct, frozen=True, array_like=True):
    """One trial: when it ended, in seconds since the tuning was started, its task, and its latency."""

    at_s: float
    task: int
    latency_s: float | None
    short: bool


class Course(msgspec.Struct, frozen=True):
    """One tuning, from the start of its process; `first_s` is when its first trial was measured and, of ours, seen."""

    weights: list[int]
    trials: list[Measured]
    wall_s: float
    first_s: float
    streaming_s: float | None = None
    """CPU seconds of supervisor, recorder, announcements and one watcher; ours only."""

    @property
    def trials_a_second(self) -> float:
        """From the start of the process to the end of its last trial."""
        return len(self.trials) / max(trial.at_s for trial in self.trials)

    def estimates(self) -> Iterable[tuple[float, float]]:
        """Σ best × weight in seconds after each improvement, from the one on at which every task has a valid trial."""
        best: dict[int, float] = {}
        for trial in self.trials:
            if trial.latency_s is None or trial.short or trial.latency_s >= best.get(trial.task, math.inf):
                continue
            best[trial.task] = trial.latency_s
            if len(best) == len(self.weights):
                yield trial.at_s, sum(best[task] * weight for task, weight in enumerate(self.weights))

    def final_estimate_s(self) -> float | None:
        """The last of them; None when a task has no valid trial."""
        return min((estimate for _, estimate in self.estimates()), default=None)

    def reached_s(self, latency_s: float) -> float | None:
        """When the estimate was at most this; None when it never was."""
        return next((at_s for at_s, estimate in self.estimates() if estimate <= latency_s), None)


class Comparison(msgspec.Struct, frozen=True):
    """One pair's outcome; latencies are Σ best × weight, measured side by side at the end."""

    workload: str
    batch: int
    seed: int
    ours: Course
    stock: Course
    ours_s: float | None
    stock_s: float | None
    stock_then_s: float | None
    """Of what stock TVM had when ours was done; None when a task had no valid trial yet."""

    def figures(self, cores: int) -> dict[str, float | None]:
        """Ours divided by stock TVM's, but `streaming`: the share of the machine that watching costs."""
        return {
            "trials_a_second": self.ours.trials_a_second / self.stock.trials_a_second,
            "first_trial": self.ours.first_s / self.stock.first_s,
            "latency_at_equal_trials": _ratio(self.ours_s, self.stock_s),
            "latency_at_equal_time": _ratio(self.ours_s, self.stock_then_s),
            "time_to_quality": self._time_to_quality(),
            "streaming": _ratio(self.ours.streaming_s, self.ours.wall_s * cores),
        }

    def _time_to_quality(self) -> float | None:
        """Until the estimate is within 5 % of what stock TVM reaches at the end of its budget."""
        final = self.stock.final_estimate_s()
        if final is None:
            return None
        return _ratio(self.ours.reached_s(final * 1.05), self.stock.reached_s(final * 1.05))


def _ratio(ours: float | None, stock: float | None) -> float | None:
    return None if ours is None or stock is None else ours / stock
