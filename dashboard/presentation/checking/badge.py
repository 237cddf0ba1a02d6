"""What a regression check's badge says."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from dashboard.presentation import units
from tuning.models import RegressionCheck

State = RegressionCheck.State
GREEN, RED, GREY = "#2e7d32", "#c62828", "#5f6b7a"
"""White text on each has a contrast of at least 5 to 1."""
CHARACTER_PX = 6.6
"""About the average width of a character; `textLength` makes the text fit whatever the font."""
PADDING_PX = 8
LONGEST = 60


class Badge(NamedTuple):
    """`widths` of its two halves, in px."""

    label: str
    text: str
    color: str

    @property
    def widths(self) -> tuple[int, int]:
        return _width(self.label), _width(self.text)


def badge(check: RegressionCheck, now: datetime) -> Badge:
    """Old results say nothing, and neither does a check that is paused."""
    label = check.name if len(check.name) <= LONGEST else f"{check.name[: LONGEST - 1]}…"
    return Badge(label, *_said(check, now))


def _said(check: RegressionCheck, now: datetime) -> tuple[str, str]:
    latest = check.latest
    if latest is None or not check.is_current(now):
        return "unknown", GREY
    if check.state == State.FAILED:
        return "failing", RED
    if check.state == State.REGRESSION and latest.change is not None:
        return f"{latest.change * 100:.{0 if latest.change >= 0.0995 else 1}f} % slower", RED
    return f"{units.latency(latest.latency_s)} · ok", GREEN


def _width(text: str) -> int:
    return round(len(text) * CHARACTER_PX) + 2 * PADDING_PX
