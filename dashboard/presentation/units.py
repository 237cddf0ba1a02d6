"""Quantities as text. `static/js/common/units.js` does the same; tests/data/units.json tests both.

Every function accepts None for what wasn't measured, and shows a dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from django.template.defaultfilters import filesizeformat

from tuning import wording
from tuning.wording import SPACE, digits, scaled

UNKNOWN = "–"

LEAST_ABOUT_S = 10
ROUGHLY: tuple[tuple[float, float, str, float], ...] = (
    (55, 1, "s", 10),
    (9.5 * 60, 60, "min", 1),
    (57.5 * 60, 60, "min", 5),
    (9.75 * 3600, 3600, "h", 0.5),
    (36 * 3600, 3600, "h", 1),
    (math.inf, 86_400, "d", 1),
)
"""Below how many seconds a rough time is in which unit (its seconds and name), and to which multiple of it."""
_COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"), (1.0, ""))


def latency(seconds: float | None) -> str:
    """Seconds as s, ms, µs or ns with four significant digits."""
    return UNKNOWN if seconds is None else wording.latency(seconds)


def flop(operations: float | None) -> str:
    """Floating-point operations with K, M, G or T. 0 is a dash, since it means that TVM couldn't count them."""
    return scaled(operations, _COUNTS) if operations else UNKNOWN


def gflops(speed: float | None) -> str:
    """10⁹ floating-point operations per second, three significant digits."""
    return UNKNOWN if speed is None else digits(speed, 3)


def count(number: int | None) -> str:
    """A whole number in groups of three digits."""
    return UNKNOWN if number is None else f"{number:,}"


def percent(share: float | None) -> str:
    """A share from 0 to 1."""
    return UNKNOWN if share is None else wording.percent(share)


def plus_minus(noise: float | None) -> str:
    """A figure's noise behind it: `± 2 %`; empty if it isn't known."""
    return "" if noise is None else wording.plus_minus(noise)


def difference(ratio: float | None) -> str:
    """A ratio as a difference from 1: `−12.5 %`."""
    return UNKNOWN if ratio is None else wording.difference(ratio - 1, within_noise=None)


def signed_latency(seconds: float | None) -> str:
    """A difference of latencies with its sign."""
    return UNKNOWN if seconds is None else wording.signed(seconds, latency(abs(seconds)))


def speed(trials_a_second: float | None) -> str:
    """Trials per second, or per minute if that is easier to read."""
    if trials_a_second is None or trials_a_second >= 1:
        return speed_a_second(trials_a_second)
    return f"{digits(trials_a_second * 60, 3)}{SPACE}/min"


def speed_a_second(trials_a_second: float | None) -> str:
    """Trials per second, also for slow runs, so that speeds can be compared."""
    if trials_a_second is None:
        return UNKNOWN
    shown = digits(trials_a_second, 3) if trials_a_second >= 1 else f"{trials_a_second:.3g}"
    return f"{shown}{SPACE}/s"


def times(factor: float | None) -> str:
    """A factor, three significant digits."""
    return UNKNOWN if factor is None else f"{digits(factor, 3)}×"


def milliseconds(seconds: float | None) -> str:
    """Seconds as milliseconds without the unit, four significant digits."""
    if not seconds:
        return UNKNOWN if seconds is None else "0"
    return f"{seconds * 1e3:,.{max(3 - math.floor(math.log10(seconds * 1e3)), 0)}f}"


def scientific(number: float | None) -> str:
    """Two digits and a power of ten: `3.0e-07`; zero is `0`."""
    if not number:
        return UNKNOWN if number is None else "0"
    return f"{number:.1e}"


def duration(seconds: float | None) -> str:
    """Seconds in the two largest units."""
    return UNKNOWN if seconds is None else wording.duration(seconds)


def about(seconds: float | None) -> str:
    """A time that is only roughly known, in one unit."""
    if seconds is None:
        return UNKNOWN
    if seconds < LEAST_ABOUT_S:
        return f"less than {LEAST_ABOUT_S}{SPACE}s"
    return f"about {SPACE.join(_roughly(seconds))}"


def between(bounds: Sequence[float | None]) -> str:
    """Two such times: `2 to 4 min`; empty if they aren't known, or are the same."""
    known = [_roughly(max(seconds, LEAST_ABOUT_S)) for seconds in bounds if seconds is not None]
    if len(known) < len(bounds):
        return ""
    least, most = known
    if least == most:
        return ""
    low = least[0] if least[1] == most[1] else SPACE.join(least)
    return f"{low} to {SPACE.join(most)}"


def _roughly(seconds: float) -> tuple[str, str]:
    """A number and its unit. The more, the rougher."""
    unit_s, unit, step = next(size for size in ROUGHLY if seconds < size[0])[1:]
    number = max(1, round(seconds / unit_s / step)) * step
    return f"{number:g}", unit


def bytes_label(size: int | None) -> str:
    """A size in bytes; Django's units are powers of 1024."""
    return UNKNOWN if size is None else filesizeformat(size)


def bound(seconds: float) -> str:
    """One of a histogram's bounds; infinity means above all of them."""
    if math.isinf(seconds):
        return "more"
    return f"{seconds * 1000:g}{SPACE}ms" if seconds < 1 else f"{seconds:g}{SPACE}s"


def age(seconds: float) -> str:
    """How long ago, in one unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)}{SPACE}{unit} ago"
    return "just now"


def moment(time: datetime | None) -> str:
    """A time to the second, with its zone."""
    return UNKNOWN if time is None else time.strftime("%Y-%m-%d %H:%M:%S %Z")


def recent_speed(at_s: Sequence[float]) -> float | None:
    """Trials per second from the times of the latest trials, oldest first; None if there are too few."""
    if len(at_s) < 2 or at_s[-1] <= at_s[0]:
        return None
    return (len(at_s) - 1) / (at_s[-1] - at_s[0])
