"""Figures over a run's trials or time, as `presentation.charts` makes them. `meta.role` selects a color."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dashboard.presentation.charts import BETWEEN_DECADES, FigureDict, layout_of
from tuning.reads.course.conditions import ConditionSampleDict
from tuning.reads.course.rankings import Point, RankingDict
from tuning.reads.course.rounds import PieceDict

Trial = tuple[int, float | None]
"""A trial's number and its seconds since the run began."""
Line = tuple[str, str, str, str]
"""A line of the strip: the sample's field, its words, the role that gives it its color, and what its hover says."""

PARTS = {
    "start_s": ("Start", "start"),
    "search_s": ("Search", "search"),
    "learn_s": ("Learn", "learn"),
    "build_s": ("Build", "build"),
    "measure_s": ("Measure", "measure"),
    "again_s": ("Measure again", "again"),
    "wait_s": ("Wait", "wait"),
    "other_s": ("Other", "rest"),
    "unknown_s": ("Not in a round", "unknown"),
}
"""The parts of a run's time: how they are called, and the role that gives them their color."""
RUNNING = 10
"""Rounds that the running mean covers."""
GAP = 0.12
"""Between two rows of the strip, as a share of its height."""


def band(pieces: Sequence[PieceDict], done: int) -> FigureDict:
    """How the engine divided its time, as shares of each piece of the run, of which `done` trials have ended."""
    data = [_part(name, pieces, done) for name in PARTS if any(_part_of(piece, name) for piece in pieces)]
    layout = layout_of("Where the time went", "Share of the time", log=False, kind="")
    layout["yaxis"] |= {"tickformat": ".0%", "minallowed": 0, "maxallowed": 1, "fixedrange": True}
    return {"data": data, "layout": {**layout, "showlegend": False}}


def _part(name: str, pieces: Sequence[PieceDict], done: int) -> dict[str, Any]:
    shares = [_part_of(piece, name) / max(piece["ended_s"] - piece["began_s"], 1e-9) for piece in pieces]
    words, role = PARTS[name]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": words,
        "x": [*(piece["done"] for piece in pieces), done],
        "customdata": [*(piece["began_s"] for piece in pieces), pieces[-1]["ended_s"]],
        "y": [*shares, shares[-1]],
        "meta": {"role": role},
        "stackgroup": "time",
        "line": {"shape": "hv"},
        "hovertemplate": f"{words.lower()} %{{y:.0%}}<br>trial %{{x}} · %{{customdata:.1f}} s<extra></extra>",
    }


def _part_of(piece: PieceDict, name: str) -> float:
    seconds: float = piece[name]  # type: ignore[literal-required]
    return seconds


def accuracy(points: Sequence[Point]) -> FigureDict:
    """The rank correlation of each round and its running mean; several rounds in one where there are many."""
    means = [_mean([one.correlation for one in points[max(0, at + 1 - RUNNING) : at + 1]]) for at in range(len(points))]
    hover = "%{y:.2f}<br>trial %{x} · %{customdata:.1f} s<extra></extra>"
    data = [
        {
            **_line("each round", points, [one.correlation for one in points], "trials"),
            "mode": "markers",
            "marker": {"size": 5},
            "hovertemplate": f"rank correlation {hover}",
        },
        {
            **_line(f"mean of {RUNNING}", points, means, "estimate"),
            "hovertemplate": f"mean of the last {RUNNING} {hover}",
        },
    ]
    layout = layout_of("Accuracy of the cost model", "Rank correlation", log=False, kind="")
    layout["yaxis"] |= {"rangemode": "normal", "autorangeoptions": {"include": [-0.2, 1]}}
    return {"data": data, "layout": {**layout, "showlegend": False}}


def _line(name: str, points: Sequence[Point], values: list[float], role: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [one.done for one in points],
        "customdata": [one.at_s for one in points],
        "y": values,
        "meta": {"role": role},
        "line": {},
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def predicted(rankings: Iterable[RankingDict]) -> FigureDict:
    """Each candidate of a task by its measured latency and the score that the cost model gave it before it was measured."""
    pairs = [
        (latency_s, score, one["done"])
        for one in rankings
        for latency_s, score in zip(one["latencies_s"], one["scores"], strict=True)
    ]
    data = {
        "type": "scatter",
        "mode": "markers",
        "name": "candidates",
        "x": [latency_s for latency_s, _, _ in pairs],
        "customdata": [done for _, _, done in pairs],
        "y": [score for _, score, _ in pairs],
        "meta": {"role": "estimate"},
        "marker": {"size": 6, "opacity": 0.7},
        "hovertemplate": "measured %{x:.4s}s, score %{y:.2f}<br>judged before trial %{customdata}<extra></extra>",
    }
    layout = layout_of("Predicted and measured", "Predicted score", log=False, kind="")
    xaxis = {
        "title": {"text": "Measured latency"},
        "type": "log",
        "tickformat": "~s",
        "ticksuffix": "s",
        "labelalias": BETWEEN_DECADES,
    }
    return {"data": [data], "layout": {**layout, "xaxis": xaxis, "showlegend": False}}


def conditions(samples: Sequence[ConditionSampleDict], noisy: Sequence[Trial]) -> FigureDict | None:
    """A strip with a row each for others' load, frequencies and temperatures, as far as they are recorded; None if nothing is.

    `noisy` are trials that were measured while others used the machine too much: marks on the first row.
    """
    rows: list[tuple[str, list[Line]]] = [
        ("Cores", [("others_cores", "used by others", "noisy", "others used %{y:.2f} cores")]),
        (
            "GHz",
            [
                ("mhz", "mean", "estimate", "mean frequency %{y:.2f} GHz"),
                ("least_mhz", "lowest", "trials", "lowest frequency %{y:.2f} GHz"),
            ],
        ),
        ("°C", [("celsius", "temperature", "failed", "%{y:.0f} °C")]),
    ]
    told = [(title, lines) for title, lines in rows if any(_known(samples, name) for name, *_ in lines)]
    if not told:
        return None
    data: list[dict[str, Any]] = []
    layout = layout_of("The machine while it measured", told[0][0], log=False, kind="")
    for place, (title, lines) in enumerate(told):
        axis = f"yaxis{place + 1 if place else ''}"
        layout[axis] = {
            "title": {"text": title},
            "domain": _domain(place, len(told)),
            "nticks": 4,
            "rangemode": "tozero",
        }
        data += [_sampled(samples, line, place) for line in lines if _known(samples, line[0])]
    if noisy and told[0][0] == rows[0][0]:
        data.append(_marks(noisy, len(told) + 1))
        layout[f"yaxis{len(told) + 1}"] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    layout["meta"]["rows"] = len(told)
    layout["xaxis"]["anchor"] = f"y{len(told)}" if len(told) > 1 else "y"
    return {"data": data, "layout": {**layout, "showlegend": False}}


def _known(samples: Sequence[ConditionSampleDict], name: str) -> bool:
    return any(sample[name] is not None for sample in samples)  # type: ignore[literal-required]


def _domain(place: int, rows: int) -> list[float]:
    """From the top down."""
    height = (1 - GAP * (rows - 1)) / rows
    top = 1 - place * (height + GAP)
    return [max(0.0, top - height), top]


def _sampled(samples: Sequence[ConditionSampleDict], line: Line, place: int) -> dict[str, Any]:
    name, words, role, hover = line
    scale = 1e-3 if name.endswith("mhz") else 1.0
    values: list[float | None] = [sample[name] for sample in samples]  # type: ignore[literal-required]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": words,
        "x": [sample["done"] for sample in samples],
        "customdata": [sample["at_s"] for sample in samples],
        "y": [None if value is None else value * scale for value in values],
        "yaxis": f"y{place + 1 if place else ''}",
        "meta": {"role": role, "filled": name == "others_cores"},
        "line": {},
        "connectgaps": False,
        "hovertemplate": f"{hover}<br>trial %{{x}} · %{{customdata:.1f}} s<extra></extra>",
    }


def _marks(noisy: Sequence[Trial], axis: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "noisy trials",
        "x": [number for number, _ in noisy],
        "customdata": [at_s for _, at_s in noisy],
        "y": [0.04] * len(noisy),
        "yaxis": f"y{axis}",
        "meta": {"role": "noisy"},
        "marker": {"size": 8, "symbol": "line-ns-open"},
        "hovertemplate": "noisy: other processes used the machine<br>trial %{x} · %{customdata:.1f} s<extra></extra>",
    }
