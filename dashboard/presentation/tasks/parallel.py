"""Parallel coordinates of a task's trials, drawn by the server.

Plotly's `parcoords` compiles its shaders with `new Function`, which the site's Content-Security-Policy forbids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.presentation.units import latency
from tuning.reads.records import Space, Tried

MOST_AXES = 7
MOST_LINES = 400
MOST_TICKS = 12
WIDTH, TOP, BOTTOM = 1000, 46, 330
LEFT, RIGHT = 60, 900
FASTEST = ((0.1, "fastest tenth"), (0.25, "fastest quarter"), (0.5, "faster half"), (1.0, "slower half"))
"""Ranks of latency up to this share of the trials, and what they are called. The nth has the CSS class `rank-n`."""
SHORT = 20
"""Characters of an axis's name."""


@dataclass(frozen=True)
class Axis:
    """A vertical line with marks of its values, `(y, text)`."""

    x: float
    name: str
    part: str
    ticks: list[tuple[float, str]]

    @property
    def short(self) -> str:
        """As much of the name as there is room for."""
        name = self.name.removeprefix("tiling of ")
        return name if len(name) <= SHORT else f"{name[: SHORT - 1]}…"


@dataclass(frozen=True)
class Line:
    """One trial. `rank` is the index of its latency's part of `FASTEST`."""

    trial: int
    latency_s: float
    rank: int
    points: str


@dataclass(frozen=True)
class Picture:
    """The axes from left to right, the last being latency, and the trials, slow ones first, so that fast ones are on top."""

    axes: list[Axis]
    lines: list[Line]
    left_out: int


def picture(space: Space) -> Picture | None:
    """The choices that explain most, or where that can't be told, the first ones; None if all trials decided the same."""
    names = [name for name in _names(space) if len({one.values.get(name) for one in space.trials}) > 1][:MOST_AXES]
    if not names:
        return None
    ranked = sorted(space.trials, key=lambda one: one.latency_s)
    shown = _spread(ranked)
    gap = (RIGHT - LEFT) / len(names)
    places = [_places([one.values.get(name, "") for one in space.trials]) for name in names]
    axes = [
        Axis(LEFT + gap * nth, *name, _ticks(place))
        for nth, (name, place) in enumerate(zip(names, places, strict=True))
    ]
    ends: list[tuple[float, str]] = [(TOP, latency(ranked[0].latency_s)), (BOTTOM, latency(ranked[-1].latency_s))]
    axes.append(Axis(RIGHT, "Latency", "by rank", ends))
    count = max(1, len(ranked) - 1)
    lines = [
        _line(
            one,
            rank / count,
            [place[one.values.get(name, "")] for name, place in zip(names, places, strict=True)],
            axes,
        )
        for rank, one in shown
    ]
    return Picture(axes, lines[::-1], len(ranked) - len(shown))


def _names(space: Space) -> list[tuple[str, str]]:
    if space.importance:
        return [name for name, _ in space.importance.shares]
    return list(space.trials[0].values)


def _spread(ranked: Sequence[Tried]) -> list[tuple[int, Tried]]:
    """At most `MOST_LINES` trials with their ranks: the fastest half of these, and the others evenly."""
    if len(ranked) <= MOST_LINES:
        return list(enumerate(ranked))
    first = MOST_LINES // 2
    step = (len(ranked) - first) / (MOST_LINES - first)
    others = (first + int(nth * step) for nth in range(MOST_LINES - first))
    return [(rank, ranked[rank]) for rank in (*range(first), *others)]


def _places(values: Sequence[int | str]) -> dict[int | str, float]:
    """The height of each value: in order, the smallest at the bottom, numbers before words."""
    order = sorted(set(values), key=_in_order)
    gap = (BOTTOM - TOP) / max(1, len(order) - 1)
    return {value: BOTTOM - gap * nth for nth, value in enumerate(order)}


def _in_order(value: int | str) -> tuple[bool, str, int]:
    """`loop 9` comes before `loop 10`."""
    if isinstance(value, int):
        return False, "", value
    words = value.rstrip("0123456789")
    return True, words, int(value[len(words) :] or 0)


def _ticks(places: dict[int | str, float]) -> list[tuple[float, str]]:
    every = -(-len(places) // MOST_TICKS)
    return [(round(y, 1), str(value)) for nth, (value, y) in enumerate(places.items()) if nth % every == 0]


def _line(one: Tried, rank: float, heights: list[float], axes: Sequence[Axis]) -> Line:
    """Its points are moved a little by its rank, or trials with the same choices would cover each other."""
    moved = 10 * (rank - 0.5)
    heights = [*(height + moved for height in heights), TOP + (BOTTOM - TOP) * rank]
    points = " ".join(f"{axis.x:.0f},{height:.1f}" for axis, height in zip(axes, heights, strict=True))
    return Line(one.number, one.latency_s, next(nth for nth, (most, _) in enumerate(FASTEST) if rank <= most), points)
