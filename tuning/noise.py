"""How far measurements of the same thing lie apart, and which differences that explains. See docs/trust.md."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from statistics import median
from typing import NamedTuple

FEWEST = 5
"""Measurements from which on their noise is told."""
DEVIATIONS = 2.0
"""Noise is so many standard deviations, within which about 95 % of measurements lie."""
NORMAL = 1.4826
"""A normal distribution's standard deviation in terms of its median absolute deviation."""
FEW = {5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""By number of measurements, how many times too small their median absolute deviation is on average (Croux and Rousseeuw 1992)."""
LATEST = 5
"""Measurements whose median tells how fast a machine was at a time."""
LEAST_DRIFT = 0.05
"""A smaller change of speed isn't told."""


class Difference(NamedTuple):
    """How a latency differs from another one: by `change`, -0.03 if it is 3 % less. `noise` is that of both together, None if unknown."""

    change: float
    noise: float | None

    @property
    def within_noise(self) -> bool | None:
        """Whether noise explains it; None if that isn't known."""
        return None if self.noise is None else abs(self.change) <= self.noise


def noise(latencies: Sequence[float]) -> float | None:
    """The relative distance from their median within which about 95 % of such measurements lie; None if there are too few.

    It is taken from the median absolute deviation, so a few outliers don't change it.
    """
    count = len(latencies)
    if count < FEWEST:
        return None
    middle = median(latencies)
    if middle <= 0:
        return None
    deviation = median(abs(latency - middle) for latency in latencies)
    return DEVIATIONS * NORMAL * FEW.get(count, count / (count - 0.8)) * deviation / middle


def combined(*noises: float | None) -> float | None:
    """The noise of a difference of measurements with these noises; None if one isn't known."""
    known = [each for each in noises if each is not None]
    return hypot(*known) if noises and len(known) == len(noises) else None


def difference(latency_s: float, than_s: float, *noises: float | None) -> Difference:
    """How a latency differs from another one, both measured with these noises."""
    return Difference(latency_s / than_s - 1, combined(*noises))


def drift(latencies: Sequence[float]) -> float | None:
    """How much slower the latest of these measurements are than the first, 0.18 for 18 %; None if that is noise, or they are too few."""
    if len(latencies) < 2 * LATEST:
        return None
    first, last = latencies[:LATEST], latencies[-LATEST:]
    found = difference(median(last), median(first), noise(first), noise(last))
    return None if found.within_noise or abs(found.change) < LEAST_DRIFT else found.change
