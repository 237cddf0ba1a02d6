"""The race: a candidate that is clearly slower than its task's best isn't measured at full length. No TVM here.

Its latency is measured all the same, in a few short laps. Noise makes a lap slower, never faster, so the fastest lap
decides: only what was slower than the limit in every lap has lost, and whatever else happens on the machine would have
to last through all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LAP_MS = 1
"""Least length of a lap, well below a scheduler's time slice: short functions are executed more often."""
LAPS = 8
LONG_S = 0.04
"""Slow functions need no 8 laps: those that lasted this long in all are as telling."""
WORTHWHILE_MS = 80
"""A full measurement that takes less than that costs no more than the race."""

Laps = Callable[[int], list[float]]
"""Measures so many laps: seconds of one execution in each."""


def lost(laps: Laps, limit_s: float, at_least: int) -> list[float] | None:
    """The laps of a candidate that lost; None for one that is to be measured at full length."""
    run = laps(at_least)
    if min(run) > limit_s and (more := _lacking(run)):
        run += laps(more)
    return run if min(run) > limit_s else None


def _lacking(run: list[float]) -> int:
    enough = math.ceil(LONG_S / max(min(run), LAP_MS / 1e3))
    return max(0, min(LAPS, enough) - len(run))


def is_worthwhile(config: tuple[int, int, int]) -> bool:
    """Whether a full measurement of this number, repeat and min_repeat_ms takes long enough to be cut short."""
    _, repeat, min_repeat_ms = config
    return repeat * min_repeat_ms >= WORTHWHILE_MS
