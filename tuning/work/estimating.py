"""The curve of a run's estimate in a few points, stored with the run so that a list can show many curves."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST = 24
"""When a curve has twice this many points, it is thinned to this many."""


def grown(points: Sequence[Sequence[float]], more: Sequence[tuple[int, float]]) -> list[list[float]]:
    """Append points, each a trial's number and seconds, rounded to five digits.

    Thinning keeps the last point of each stretch of trials, so the curve's end is always exact.
    """
    curve: list[list[float]] = [
        *map(list, points),
        *([number, float(f"{estimate_s:.5g}")] for number, estimate_s in more),
    ]
    if len(curve) < 2 * FEWEST:
        return curve
    last = curve[-1][0]
    return list({int(number * FEWEST // (last + 1)): [number, estimate_s] for number, estimate_s in curve}.values())
