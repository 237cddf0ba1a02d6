"""Figures of the Metrics page: the site now, and its last day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.presentation.charts import FigureDict
from tuning.reads.metrics import STEP, State, Timeline
from tuning.wording import ERROR_KINDS

A_STEP = int(STEP.total_seconds() // 60)
TIME = {"title": {"text": "Time (UTC)"}, "type": "date", "tickformat": "%H:%M", "tickangle": 0, "nticks": 6}
FEW = 8
"""With fewer runs of each status, each number has its own grid line."""


def figures(state: State, timeline: Timeline) -> dict[str, FigureDict]:
    """By chart. A figure without anything counted has no traces."""
    return {
        "runs": _runs(state.runs),
        "trials": _trials(timeline),
        "failed": _failed(timeline),
        "use": _use(timeline),
    }


def _runs(runs: Mapping[str, int]) -> FigureDict:
    bars = {
        "type": "bar",
        "name": "runs",
        "x": list(runs),
        "y": list(runs.values()),
        "meta": {"task": 0},
        "marker": {},
        "customdata": [],
        "hovertemplate": "%{y} %{x}<extra></extra>",
    }
    layout = _layout("Runs by status", "Runs", x={"title": {"text": "Status"}, "type": "category"})
    if max(runs.values(), default=0) < FEW:
        layout["yaxis"]["dtick"] = 1
    return {"data": [bars] if any(runs.values()) else [], "layout": {**layout, "showlegend": False, "bargap": 0.4}}


def _trials(timeline: Timeline) -> FigureDict:
    # The last minute isn't over.
    minutes = timeline.minutes[:-1]
    data = [
        _line(
            index,
            device,
            minutes,
            counts[:-1],
            f"%{{y}} trials in the minute from %{{x|%H:%M}} UTC<extra>{device}</extra>",
        )
        for index, (device, counts) in enumerate(sorted(timeline.trials.items()))
    ]
    return _several(data, _layout("Trials per minute", "Trials/min", x=TIME))


def _failed(timeline: Timeline) -> FigureDict:
    data = [
        {
            "type": "bar",
            "name": ERROR_KINDS.get(kind, kind),
            "x": [step.isoformat() for step in timeline.steps],
            "y": [sum(counts[place : place + A_STEP]) for place in range(0, len(counts), A_STEP)],
            "meta": {"task": index},
            "marker": {},
            "customdata": [],
            "hovertemplate": f"%{{y}} in the {A_STEP} minutes from %{{x|%H:%M}} UTC<extra>%{{fullData.name}}</extra>",
            # The bar covers the time after its beginning.
            "offset": 0,
            "width": STEP.total_seconds() * 1000,
        }
        for index, (kind, counts) in enumerate(sorted(timeline.failed.items()))
    ]
    layout = _layout("Failed trials by kind", f"Failed trials in {A_STEP} min", x=TIME)
    return _several(data, {**layout, "barmode": "stack"})


def _use(timeline: Timeline) -> FigureDict:
    data = [
        _line(
            index,
            device,
            timeline.steps,
            shares,
            f"%{{y:.0%}} of the {A_STEP} minutes from %{{x|%H:%M}} UTC<extra>{device}</extra>",
        )
        for index, (device, shares) in enumerate(sorted(timeline.tuned.items()))
    ]
    layout = _layout("Share of time in which each device tuned", "Share of time", x=TIME)
    layout["yaxis"] |= {"tickformat": ".0%", "range": [0, 1.05], "maxallowed": 1.05}
    return _several(data, layout)


def _several(data: list[dict[str, Any]], layout: dict[str, Any]) -> FigureDict:
    """With a legend, on phones too: only it says which is which."""
    return {"data": data, "layout": {**layout, "showlegend": len(data) > 1}}


def _line(index: int, device: str, times: Sequence[Any], values: Sequence[float], hover: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": device,
        "x": [time.isoformat() for time in times],
        "y": list(values),
        "meta": {"task": index, "dash": "solid"},
        "line": {"shape": "hv"},
        "customdata": [],
        "hovertemplate": hover,
    }


def _layout(title: str, values: str, *, x: dict[str, Any]) -> dict[str, Any]:
    whole = {"title": {"text": values}, "rangemode": "tozero", "minallowed": 0, "nticks": 6}
    return {"meta": {"title": title}, "xaxis": x, "yaxis": whole}
