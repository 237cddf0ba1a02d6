"""How long a run will go on, judged by what its rounds took so far.

A round is a search, its builds and its measurements. Trials come in bursts at the end of a round, so the time between trials says little:
only whole rounds do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import NormalDist, mean, stdev
from typing import NamedTuple

from typing_extensions import TypedDict

ROUNDS = 32
"""The latest so many rounds count."""
FEWEST = 3
"""Rounds from which on an interval is told."""
INDEPENDENT = 3
"""What rounds take drifts: from task to task, as the search learns, with the load of the machine. So their mean counts as that of no more
than this many independent ones."""
LIKELY = 0.8
"""The probability of the interval, if what is to come is like what was."""


class ForecastDict(TypedDict):
    """For how many seconds a run will probably be tuned, and between which bounds: null before three rounds have ended.

    It counts from the latest trial. Until the next one, no more than `round_s` of it passes: what the current round still takes.
    """

    s: float
    least_s: float | None
    most_s: float | None
    round_s: float


class Forecast(NamedTuple):
    """Seconds until the run ends, and likely bounds; None as long as too few rounds have ended.

    `round_s` is the current round's part of `s`: without news, no more than that can have passed.
    """

    s: float
    least_s: float | None
    most_s: float | None
    round_s: float

    def before(self, more_s: float) -> Forecast:
        """With something after it that takes so long."""
        least_s, most_s = (None if bound is None else bound + more_s for bound in (self.least_s, self.most_s))
        return Forecast(self.s + more_s, least_s, most_s, self.round_s if self.s else more_s)

    def within(self, limit_s: float) -> Forecast:
        """No longer than a time limit allows."""
        limit_s = max(0.0, limit_s)
        least_s, most_s = (None if bound is None else min(bound, limit_s) for bound in (self.least_s, self.most_s))
        return Forecast(min(self.s, limit_s), least_s, most_s, min(self.round_s, limit_s))

    def to_dict(self) -> ForecastDict:
        return {"s": self.s, "least_s": self.least_s, "most_s": self.most_s, "round_s": self.round_s}


def forecast(ends: Sequence[tuple[int, float]], trials: int, elapsed_s: float) -> Forecast | None:
    """When a run of so many trials ends, `elapsed_s` after its start.

    `ends` are the trials done and the seconds since the start at the end of each round, oldest first, all equally many trials apart; where
    the first round is among them, they begin with its start. None before a round has ended.
    """
    if len(ends) < 2:
        return None
    durations = [after[1] - before[1] for before, after in pairwise(ends)]
    (first, _), (second, _), (done, done_s) = ends[0], ends[1], ends[-1]
    left = (trials - done) / (second - first)
    current, later = min(left, 1.0), max(0.0, left - 1.0)
    average_s = mean(durations)
    round_s = max(0.0, current * average_s - (elapsed_s - done_s))
    seconds = round_s + later * average_s
    if len(durations) < FEWEST:
        return Forecast(seconds, None, None, round_s)
    independent = min(len(durations), INDEPENDENT)
    spread_s = _quantile(len(durations) - 1) * stdev(durations) * sqrt(left + left**2 / independent)
    return Forecast(seconds, max(0.0, seconds - spread_s), seconds + spread_s, round_s)


def _quantile(freedom: int) -> float:
    """Student's t for the upper end of a `LIKELY` interval, by the first terms of its expansion (within 2 % from 2 degrees of freedom on)."""
    z = NormalDist().inv_cdf((1 + LIKELY) / 2)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
