"""What more trials of a run would probably gain, judged by its curves so far.

A task improves in steps. How much of them a trial may expect falls with the trials that the task has had: in recorded runs, the logarithm of
the best latency falls with the logarithm of the trials at first, and ever more slowly after some tens. `EARLY` and `TENS` describe the average
task. How much livelier or lazier a run and each of its tasks are is learned from their latest trials, as a gamma distribution is from counts,
and what is still uncertain goes into the interval. docs/gain.md says how often it was right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

EARLY = 0.4
"""By how much the logarithm of a task's best latency falls on average, in all, while its first few trials become e times as many."""
TENS = 30
"""After so many trials, half as much."""
STEP = 0.1
"""How much an improvement gains on average, as a logarithm."""
OF_RUN, OF_TASK = 1.0, 1.0
"""How much of expected gain the average counts for, besides what was seen of the run, and the run's besides what was seen of the task."""
ALIKE = 1.0
"""The shape of what all tasks of a run have in common beyond that, such as a search that has found out, or not, what matters."""
RECENT = 2
"""A task's liveliness shows in the trials since it had this many times fewer."""
LIKELY = 0.8
"""The probability of the interval, if what is to come is like what was."""
DRAWS = 400


class Curve(NamedTuple):
    """A task's best latency so far.

    `cost_s` is its part of the estimate in seconds, `trials` how many it has had, `steps` its improvements: the position among its
    trials, from 1, and the latency in seconds; at least one. A task that isn't `open` gets no more trials. However many it gets, it gains
    at most `room_s` of `cost_s`; None if nobody knows a bound.
    """

    cost_s: float
    trials: int
    steps: Sequence[tuple[int, float]]
    open: bool = True
    room_s: float | None = None

    def gain_s(self, share: float) -> float:
        """Seconds of the estimate, if it loses this share of its latency."""
        return self.cost_s * share if self.room_s is None else min(self.cost_s * share, self.room_s)


class Gain(NamedTuple):
    """Seconds of the estimate that so many more trials are expected to gain, the likely bounds, and the expected gain of each task."""

    trials: int
    expected_s: float
    least_s: float
    most_s: float
    by_task: tuple[float, ...]


class _Pace(NamedTuple):
    """How lively a task is, 1 for the average one: a gamma distribution."""

    shape: float
    scale: float

    @property
    def mean(self) -> float:
        return self.shape * self.scale


def forecast_gain(curves: Sequence[Curve], trials: int, batch: int) -> Gain | None:
    """What `trials` more would gain, in batches of `batch` to whichever task promises most; None if no task may have any."""
    if trials < 1 or not any(curve.open for curve in curves):
        return None
    paces = _paces(curves)
    given = _given(curves, paces, trials, max(1, batch))
    by_task = tuple(_expected_s(*each) for each in zip(curves, paces, given, strict=True))
    drawn = sorted(_drawn_s(curves, paces, given))
    tail = round(DRAWS * (1 - LIKELY) / 2)
    expected_s = sum(drawn) / DRAWS
    return Gain(trials, expected_s, drawn[tail], drawn[-tail - 1], by_task)


def _progress(done: int, more: int) -> float:
    """By how much the logarithm of the average task's best latency falls from so many trials on in so many more."""
    return EARLY * math.log((done + more) / done * (done + TENS) / (done + more + TENS))


def _seen(curve: Curve) -> tuple[float, float]:
    """The task's progress in its latest trials, and what the average task's would have been."""
    since = max(curve.steps[0][0], math.ceil(curve.trials / RECENT))
    before_s = next(latency_s for position, latency_s in reversed(curve.steps) if position <= since)
    return math.log(before_s / curve.steps[-1][1]), _progress(since, curve.trials - since)


def _paces(curves: Sequence[Curve]) -> list[_Pace]:
    seen = [_seen(curve) for curve in curves]
    of_run = (OF_RUN + sum(made for made, _ in seen)) / (OF_RUN + sum(usual for _, usual in seen))
    return [_Pace((OF_TASK * of_run + made) / STEP, STEP / (OF_TASK + usual)) for made, usual in seen]


def _expected_s(curve: Curve, pace: _Pace, trials: int) -> float:
    return curve.gain_s(-math.expm1(-pace.mean * _progress(curve.trials, trials)))


def _given(curves: Sequence[Curve], paces: Sequence[_Pace], trials: int, batch: int) -> list[int]:
    """How many trials each task would get of a scheduler that chooses as TVM's does."""
    given = [0] * len(curves)
    while (left := trials - sum(given)) > 0:
        size = max(min(batch, left), left // DRAWS)
        promised = [
            _expected_s(curve, pace, had + size) - _expected_s(curve, pace, had) if curve.open else -1.0
            for curve, pace, had in zip(curves, paces, given, strict=True)
        ]
        given[promised.index(max(promised))] += min(size, left)
    return given


def _drawn_s(curves: Sequence[Curve], paces: Sequence[_Pace], given: Sequence[int]) -> list[float]:
    """What could be gained in all, so many times; always the same for the same curves."""
    random = Random(0)  # noqa: S311 - no secret
    tried = [
        (curve, pace, _progress(curve.trials, trials) / STEP)
        for curve, pace, trials in zip(curves, paces, given, strict=True)
        if trials
    ]
    drawn = []
    for _ in range(DRAWS):
        common = random.gammavariate(ALIKE, 1 / ALIKE)
        gains = (
            curve.gain_s(_share(random, common * random.gammavariate(*pace) * steps)) for curve, pace, steps in tried
        )
        drawn.append(sum(gains))
    return drawn


def _share(random: Random, expected: float) -> float:
    """Which share of its latency a task loses in so many expected improvements."""
    steps, passed = 0, random.expovariate(1.0)
    while passed < expected:
        steps, passed = steps + 1, passed + random.expovariate(1.0)
    return -math.expm1(-random.gammavariate(steps, STEP)) if steps else 0.0
