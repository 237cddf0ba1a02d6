"""A run's estimate as it falls, in few points that the run itself keeps: a list shows it of many runs at once."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST = 24
"""Points that are left when there were twice as many."""


def grown(points: Sequence[Sequence[float]], more: Sequence[tuple[int, float]]) -> list[list[float]]:
    """The curve with later points, each a trial's number and seconds, to five digits.

    Of too many points the last of each stretch of trials stays, so that the curve's end is always exact.
    """
    curve: list[list[float]] = [
        *map(list, points),
        *([number, float(f"{estimate_s:.5g}")] for number, estimate_s in more),
    ]
    if len(curve) < 2 * FEWEST:
        return curve
    last = curve[-1][0]
    return list({int(number * FEWEST // (last + 1)): [number, estimate_s] for number, estimate_s in curve}.values())
