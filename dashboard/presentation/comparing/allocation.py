"""The chart of how each run divided its trials among the tasks: a stacked bar a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.presentation.charts import SERIES, FigureDict, layout_of
from tuning.reads.comparing import ComparedRunDict, ComparedTaskDict, ComparisonDict

from .labels import categories, number

PARTS = 16
"""Tasks with a part of their own, those with the largest contribution; the others share one."""
PATTERNS = ("", "/")
"""Of the parts with the first colors, and of those with the same colors again."""


def allocation(comparison: ComparisonDict) -> FigureDict:
    """Shares of all trials of a run, so bars have the same height, apart from runs without a trial."""
    runs = comparison["runs"]
    names = [f"#{run['run']['id']}" for run in runs]
    shown = comparison["tasks"][:PARTS]
    traces = [_part(comparison, task, rank, names) for rank, task in enumerate(shown)]
    rest = [_rest(run, place, shown) for place, run in enumerate(runs)]
    if any(rest):
        traces.append(_others(runs, rest, names))
    layout = layout_of("Trials given to each task", "Share of the run’s trials", log=False, kind="")
    layout["yaxis"] |= {"tickformat": ".0%"}
    layout["xaxis"] = categories("", names)
    legible = {"mode": "hide", "minsize": 9}
    bars = {"barmode": "stack", "bargap": 0.3, "uniformtext": legible, "showlegend": False}
    return {"data": traces, "layout": {**layout, **bars}}


def _part(comparison: ComparisonDict, task: ComparedTaskDict, rank: int, names: list[str]) -> dict[str, Any]:
    told = number(comparison, task)[1]
    cells = [(name, cell) for name, cell in zip(names, task["cells"], strict=True) if cell and cell["trials"]]
    return {
        **_bar(f"{told} {task['name']}", [(name, cell["trials_share"], cell["trials"]) for name, cell in cells]),
        "text": [told for _ in cells],
        "meta": {"task": rank},
        "marker": {"pattern": {"shape": PATTERNS[rank // SERIES % 2], "fillmode": "overlay", "size": 4}},
    }


def _others(runs: list[ComparedRunDict], rest: list[int], names: list[str]) -> dict[str, Any]:
    shares = [
        (name, trials / run["run"]["trials_done"], trials)
        for run, trials, name in zip(runs, rest, names, strict=True)
        if trials
    ]
    return {**_bar("other tasks", shares), "text": ["others" for _ in shares], "meta": {"role": "other"}, "marker": {}}


def _rest(run: ComparedRunDict, place: int, shown: list[ComparedTaskDict]) -> int:
    """Trials of the run's other tasks, those that no other run has included."""
    return run["run"]["trials_done"] - sum(cell["trials"] for task in shown if (cell := task["cells"][place]))


def _bar(name: str, shares: Sequence[tuple[str, float | None, int]]) -> dict[str, Any]:
    """`shares` has the run's name, the share and the trials that it is."""
    return {
        "type": "bar",
        "name": name,
        "x": [run for run, _, _ in shares],
        "y": [share for _, share, _ in shares],
        "customdata": [trials for _, _, trials in shares],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "hovertemplate": "%{y:.1%} of its trials: %{customdata:,}<extra>%{fullData.name}</extra>",
    }
