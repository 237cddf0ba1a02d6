"""A run's estimate as a small SVG curve."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString

from . import units

WIDTH, HEIGHT, MARGIN = 96, 24, 2


def sparkline(points: Sequence[Sequence[float]], trials: int) -> SafeString:
    """The estimate as steps over the run's trials. Points are trial number and seconds; empty for fewer than two."""
    if len(points) < 2:
        return SafeString("")
    values = [value for _, value in points]
    low, high = min(values), max(values)
    across = (WIDTH - 2 * MARGIN) / max(trials, points[-1][0])
    down = (HEIGHT - 2 * MARGIN) / ((high - low) or 1.0)
    (first, value), *rest = points
    steps = "".join(f"H{MARGIN + n * across:.0f}V{MARGIN + (high - v) * down:.0f}" for n, v in rest)
    path = f"M{MARGIN + first * across:.0f} {MARGIN + (high - value) * down:.0f}{steps}H{WIDTH - MARGIN}"
    words = f"Estimate from {units.latency(value)} at trial {first:,.0f} to {units.latency(values[-1])}"
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title><path d="{}"/></svg>',
        WIDTH,
        HEIGHT,
        words,
        words,
        path,
    )
