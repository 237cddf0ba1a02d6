"""The compare page's Plotly figures.

A trace's `meta.task` is the position of its run, which selects the color. The first four runs are drawn solid and the others
dashed, so nobody depends on color alone. As in `charts`, `x` counts trials and `customdata` holds the seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Literal

from typing_extensions import TypedDict

from dashboard.presentation.charts import FigureDict, Point, Value, layout_of, steps
from tuning.reads.comparing import ComparedCellDict, ComparedRunDict, ComparisonDict

from .allocation import allocation
from .labels import baseline_of, categories, label, number, ordered, title
from .parts import place_of
from .view import View
from .waterfall import waterfall

BARS = 24
"""Tasks in a chart, those with the largest contribution; the table has all."""
SOLID = 4
"""Runs whose curves are solid and whose bars are plain."""
NAMED = 8
"""Most tasks whose names fit below their bars; with more, there is only room for their numbers."""

Values = list[Value]
"""Points of a curve: trial number, seconds since the run began, value."""


class FiguresDict(TypedDict):
    """The page's figures, and the texts for those without points."""

    estimate: FigureDict
    waterfall: FigureDict
    tasks: FigureDict
    allocation: FigureDict
    speed: FigureDict
    empty: dict[str, str]


def figures(comparison: ComparisonDict, view: View) -> FiguresDict:
    alone = "No task occurs in more than one of these runs."
    without = "The baseline has no estimate: choose another baseline." if view.values == "relative" else ""
    return {
        "estimate": _estimates(comparison, view),
        "waterfall": waterfall(comparison, view),
        "tasks": _tasks(comparison, view),
        "allocation": allocation(comparison),
        "speed": _speeds(comparison),
        "empty": {
            "estimate": without or _unknown(comparison),
            "waterfall": "These two runs have measured no task in common.",
            "tasks": "None of the shared tasks has a valid trial." if comparison["tasks"] else alone,
            "allocation": "No trial yet." if comparison["tasks"] else alone,
            "speed": "No trial yet.",
        },
    }


def _unknown(comparison: ComparisonDict) -> str:
    """Why no run has an estimate."""
    shared = [(place, cell) for task in comparison["tasks"] for place, cell in enumerate(task["cells"])]
    keys = [run["run"]["id"] for run in comparison["runs"]]
    cells = [*shared, *((keys.index(task["run"]), task["cell"]) for task in comparison["unmatched"])]
    unweighted = {place for place, cell in cells if cell and cell["weight"] is None}
    if len(unweighted) == len(keys):
        return "Not known: the weights of the tasks aren’t recorded."
    rest = " The weights of some runs’ tasks aren’t recorded." if unweighted else ""
    return f"Known once every task of a run has a valid trial.{rest}"


def _estimates(comparison: ComparisonDict, view: View) -> FigureDict:
    logarithmic = view.scale == "log"
    if view.values == "relative":
        return _relative_estimates(comparison, by_time=view.x == "time", logarithmic=logarithmic)
    layout = layout_of("Estimated latency", "Estimated latency", log=logarithmic, kind="s")
    hover = "%{y:.4s}s<br>trial %{x} · %{customdata:.1f} s<extra>%{fullData.name}</extra>"
    traces = [
        {**steps(title(run), _values(run), _end(run), _look(place)), "hovertemplate": hover}
        for place, run in enumerate(comparison["runs"])
    ]
    return {"data": traces, "layout": _with_band(layout, comparison)}


def _with_band(layout: dict[str, Any], comparison: ComparisonDict) -> dict[str, Any]:
    """With what the browser draws as a band: what is as good as the baseline within noise, beside whichever run has most of it."""
    noises = [run["noise"] for run in comparison["runs"] if run["noise"] is not None]
    if noises:
        layout["meta"]["band"] = {"trace": place_of(comparison, comparison["baseline"]), "noise": max(noises)}
    return layout


def note(comparison: ComparisonDict) -> str:
    """What the chart of estimates shows."""
    when = "once every task is measured"
    banded = any(run["noise"] is not None for run in comparison["runs"])
    return f"{when}; within the band, as good as #{comparison['baseline']}" if banded else when


def _relative_estimates(comparison: ComparisonDict, *, by_time: bool, logarithmic: bool) -> FigureDict:
    base = baseline_of(comparison)
    what = f"Estimated latency ÷ run {comparison['baseline']}'s"
    layout = layout_of(what, what, log=logarithmic, kind="")
    layout["yaxis"] |= {"ticksuffix": "×", "tickformat": ".3~g", "rangemode": "normal"}
    where = "after %{x:.1f} s" if by_time else "after trial %{x}"
    hover = f"%{{y:.3f}} of run {comparison['baseline']}'s<br>{where}<extra>%{{fullData.name}}</extra>"
    traces = []
    for place, run in enumerate(comparison["runs"]):
        values = _relative(_held(run), _values(base), by_time=by_time) if run["comparable"] else []
        # No end point: these values extend to the end already.
        traces.append({**steps(title(run), values, (0, 0.0), _look(place)), "hovertemplate": hover})
    return {"data": traces, "layout": _with_band(layout, comparison)}


def _values(run: ComparedRunDict) -> Values:
    estimate = run["estimate"]
    return list(zip(estimate["number"], estimate["at_s"], estimate["latency_s"], strict=True))


def _end(run: ComparedRunDict) -> Point:
    return run["run"]["trials_done"], run["end_s"]


def _held(run: ComparedRunDict) -> Values:
    """The curve extended to the run's end, so that a baseline that improves later shows up."""
    values = _values(run)
    return [*values, (*_end(run), values[-1][2])] if values else []


def _relative(own: Values, base: Values, *, by_time: bool) -> Values:
    """One curve ÷ another at every point where one of them changes. A baseline that has ended keeps its last value.

    Each point has the same position on both axes, since a ratio belongs to the axis it was computed for.
    """
    axis = 1 if by_time else 0
    if not own or not base or any(row[axis] is None for row in (*own, *base)):
        return []
    places, values = _sorted(own, axis)
    others, other_values = _sorted(base, axis)
    first, last = max(places[0], others[0]), places[-1]
    shown = sorted({place for place in (*places, *others) if first <= place <= last})
    return [
        (place, place, values[bisect_right(places, place) - 1] / other_values[bisect_right(others, place) - 1])  # type: ignore[misc]
        for place in shown
    ]


def _sorted(values: Values, axis: int) -> tuple[list[float], list[float]]:
    rows = sorted((row[axis] or 0, -row[2]) for row in values)
    return [place for place, _ in rows], [-value for _, value in rows]


def _tasks(comparison: ComparisonDict, view: View) -> FigureDict:
    """Best latencies, or their differences from the baseline. Always linear: on a log axis a bar's length says nothing."""
    relative, weighted = view.values == "relative", view.per == "network"
    latency = "Best latency × weight" if weighted else "Best latency"
    what = f"Difference from run {comparison['baseline']}" if relative else latency
    layout = layout_of(f"{latency} of each task", what, log=False, kind="" if relative else "s")
    if relative:
        layout["yaxis"] |= {"ticksuffix": " %", "rangemode": "normal", "zeroline": True}
    hover = "%{y:+.1f} %<br>%{customdata:.4s}s" if relative else "%{y:.4s}s"
    shown: Literal["total_s", "latency_s"] = "total_s" if weighted else "latency_s"
    tasks = ordered(comparison, view)[:BARS]
    named = len(tasks) <= NAMED
    numbers = [number(comparison, task)[1] for task in tasks]
    labels = [label(told, task["name"]) if named else told for task, told in zip(tasks, numbers, strict=True)]
    traces = []
    for place, run in enumerate(comparison["runs"]):
        cells = [(task["cells"][place], task["name"], told) for task, told in zip(tasks, labels, strict=True)]
        bars = [
            (told, height, cell[shown], name)
            for cell, name, told in cells
            if cell and (height := _change(cell) if relative else cell[shown]) is not None
        ]
        traces.append(
            {
                "type": "bar",
                "name": title(run),
                "x": [told for told, _, _, _ in bars],
                "y": [height for _, height, _, _ in bars],
                "customdata": [seconds for _, _, seconds, _ in bars],
                "text": [name for _, _, _, name in bars],
                "textposition": "none",
                "meta": {"task": place},
                "marker": {"pattern": {"shape": "" if place < SOLID else "/", "fillmode": "overlay", "size": 4}},
                "hovertemplate": f"{hover}<br>%{{text}}<extra>%{{fullData.name}}</extra>",
                **_whiskers(run, relative=relative),
            }
        )
    layout["xaxis"] = categories("" if named else f"Task of run {comparison['baseline']}", labels)
    return {"data": traces, "layout": {**layout, "bargap": 0.25}}


def _whiskers(run: ComparedRunDict, *, relative: bool) -> dict[str, Any]:
    """The noise of a run's bars; that of a difference if they show one. Nothing if it isn't recorded."""
    noise = run["noise"] if relative else run["run"]["noise"]
    if not noise:
        return {}
    return {
        "error_y": {"type": "constant" if relative else "percent", "value": noise * 100, "thickness": 1, "width": 2}
    }


def _change(cell: ComparedCellDict) -> float | None:
    return None if cell["ratio"] is None else (cell["ratio"] - 1) * 100


def _speeds(comparison: ComparisonDict) -> FigureDict:
    traces = []
    for place, run in enumerate(comparison["runs"]):
        speed = run["speed"]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": title(run),
                "x": [0, *speed["number"]] if speed["number"] else [],
                "customdata": [0.0, *speed["at_s"]] if speed["number"] else [],
                "y": [*speed["speed"][:1], *speed["speed"]],
                "meta": _look(place),
                # A speed belongs to the stretch before its point.
                "line": {"shape": "vh", "width": 2},
                "hovertemplate": "%{y:.3g} trials/s<br>trial %{x} · %{customdata:.1f} s<extra>%{fullData.name}</extra>",
            }
        )
    return {"data": traces, "layout": layout_of("Trials a second", "Trials/s", log=False, kind="")}


def _look(place: int) -> dict[str, Any]:
    return {"task": place, "dash": "solid" if place < SOLID else "dash"}
