"""The timeline of a tuning, and the figures computed from both sides' timelines. Doesn't use Django."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from tuning.estimate import RunningEstimate

Improvement = tuple[float, int, float]
"""(time, task, latency), times in seconds."""
Estimate = tuple[float, float]
"""(time, Σ best × weight), both in seconds."""


class Measured(msgspec.Struct, frozen=True, array_like=True):
    """One trial; `at_s` is when it ended, in seconds since the tuning started."""

    at_s: float
    task: int
    latency_s: float | None
    short: bool


class Timeline(msgspec.Struct, frozen=True):
    """One tuning, from the start of its process; `first_s` is when the first trial was measured (for ours: displayed)."""

    weights: list[int]
    trials: list[Measured]
    wall_s: float
    first_s: float
    streaming_s: float | None = None
    """CPU seconds of supervisor, recorder, announcements and one watcher; only ours has them."""

    @property
    def trials_a_second(self) -> float:
        """From the start of the process to the end of its last trial."""
        return len(self.trials) / max(trial.at_s for trial in self.trials)

    def improvements(self) -> Iterable[Improvement]:
        """Trials that were the best of their task when measured."""
        best: dict[int, float] = {}
        for trial in self.trials:
            if trial.latency_s is None or trial.short or trial.latency_s >= best.get(trial.task, math.inf):
                continue
            best[trial.task] = trial.latency_s
            yield trial.at_s, trial.task, trial.latency_s

    def final_estimate_s(self) -> float | None:
        """The final Σ best × weight in seconds; None if a task has no valid trial."""
        return next((estimate for _, estimate in reversed(estimates(self.improvements(), self.weights))), None)


class Comparison(msgspec.Struct, frozen=True):
    """The result of one pair. The estimates use latencies of both sides' best records measured together at the end."""

    workload: str
    batch: int
    seed: int
    ours: Timeline
    stock: Timeline
    ours_estimates: list[Estimate]
    stock_estimates: list[Estimate]
    later: list[Estimate] = []
    """Our estimates from the continuation: more trials than stock TVM, in no more time."""

    @property
    def ours_s(self) -> float | None:
        """Our final estimate; None if a task had no valid trial."""
        return _last(self.ours_estimates)

    @property
    def stock_s(self) -> float | None:
        """Stock TVM's final estimate."""
        return _last(self.stock_estimates)

    @property
    def stock_then_s(self) -> float | None:
        """Stock TVM's estimate when ours was done; None if a task had no valid trial by then."""
        done = self.ours.trials[-1].at_s
        return _last([(at_s, estimate) for at_s, estimate in self.stock_estimates if at_s <= done])

    def figures(self, cores: int) -> dict[str, float | None]:
        """Ours divided by stock TVM's; `streaming` is the share of the machine's CPU time that watching costs."""
        return {
            "trials_a_second": self.ours.trials_a_second / self.stock.trials_a_second,
            "first_trial": self.ours.first_s / self.stock.first_s,
            "latency_at_equal_trials": _ratio(self.ours_s, self.stock_s),
            "latency_at_equal_time": _ratio(self.ours_s, self.stock_then_s),
            "time_to_quality": self._time_to_quality(),
            "streaming": _ratio(self.ours.streaming_s, self.ours.wall_s * cores),
        }

    @property
    def has_time_left(self) -> bool:
        """Whether ours isn't as good yet, and stock TVM took longer."""
        return self.stock_s is not None and self._time_to_quality() is None and self.ours.wall_s < self.stock.wall_s

    def _time_to_quality(self) -> float | None:
        """Time until the estimate is within 5 % of stock TVM's final one, as a ratio."""
        if self.stock_s is None:
            return None
        ours = [*self.ours_estimates, *self.later]
        return _ratio(*(_reached(each, self.stock_s * 1.05) for each in (ours, self.stock_estimates)))


def estimates(improvements: Iterable[Improvement], weights: Sequence[int]) -> list[Estimate]:
    """Σ best × weight in seconds after each improvement, once every task has a latency."""
    running = RunningEstimate(dict(enumerate(weights)))
    found = [(at_s, running.improve(task, latency_s)) for at_s, task, latency_s in improvements]
    return [(at_s, estimate) for at_s, estimate in found if estimate is not None]


def _last(found: Sequence[Estimate]) -> float | None:
    return found[-1][1] if found else None


def _reached(found: Iterable[Estimate], latency_s: float) -> float | None:
    """When the estimate was first at most this; None if it never was."""
    return next((at_s for at_s, estimate in found if estimate <= latency_s), None)


def _ratio(ours: float | None, stock: float | None) -> float | None:
    return None if ours is None or stock is None else ours / stock
