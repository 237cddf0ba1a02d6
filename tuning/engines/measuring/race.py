"""The race: candidates that are clearly slower than their task's best aren't measured at full length. No TVM here.

Each candidate first runs a few short laps against a limit. Noise can make a lap slower but never faster, so the
fastest lap decides: a candidate loses only if it exceeds the limit in every lap, and a disturbance would have to last
through all of them to cause that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LAP_MS = 1
"""Minimum length of a lap, well below a scheduler's time slice. Short functions are executed more than once."""
LAPS = 8
LONG_S = 0.04
"""Slow functions don't need 8 laps: laps that take this long in total are as reliable."""
WORTHWHILE_MS = 80
"""If a full measurement takes less than this, a race would save nothing."""

MeasureLaps = Callable[[int], list[float]]
"""Measures this many laps, and returns the seconds per execution of each."""


def lost_laps(measure_laps: MeasureLaps, limit_s: float, at_least: int) -> list[float] | None:
    """Race a candidate, and return its laps if it lost; None if it is to be measured at full length."""
    laps = measure_laps(at_least)
    if min(laps) > limit_s and (missing := _missing(laps)):
        laps += measure_laps(missing)
    return laps if min(laps) > limit_s else None


def _missing(laps: list[float]) -> int:
    enough = math.ceil(LONG_S / max(min(laps), LAP_MS / 1e3))
    return max(0, min(LAPS, enough) - len(laps))


def is_worthwhile(config: tuple[int, int, int]) -> bool:
    """Whether a full measurement with this (number, repeat, min_repeat_ms) takes long enough to be worth a race."""
    _, repeat, min_repeat_ms = config
    return repeat * min_repeat_ms >= WORTHWHILE_MS
