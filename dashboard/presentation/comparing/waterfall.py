"""The chart of where a difference comes from: bars that lead, task by task, from the baseline to another run."""

from __future__ import annotations

from typing import Any, NamedTuple

from dashboard.presentation.charts import FigureDict, layout_of
from tuning.reads.comparing import ComparisonDict

from .labels import categories, label
from .parts import Part, parts
from .view import View

STEPS = 12
"""Tasks with a bar of their own, those with the largest differences; the others share one."""
NAMED = 5
"""Most tasks whose names fit below their bars."""


class Step(NamedTuple):
    """A bar from `base_s` that is `difference_s` long."""

    label: str
    base_s: float
    difference_s: float
    tasks: str


def waterfall(comparison: ComparisonDict, view: View) -> FigureDict:
    """From no difference to that of all tasks which the two runs have measured. Without such tasks it has no bars."""
    steps = _steps(parts(comparison, view.against))
    faster = [step for step in steps[:-1] if step.difference_s < 0]
    slower = [step for step in steps[:-1] if step.difference_s >= 0]
    baseline = comparison["baseline"]
    layout = layout_of(
        "Where the difference comes from", f"Latency × weight, from run {baseline}’s", log=False, kind="s"
    )
    layout["yaxis"] |= {"rangemode": "normal", "zeroline": True}
    title = f"Task of run {baseline}" if len(steps) > NAMED + 1 else ""
    layout["xaxis"] = categories(title, [step.label for step in steps])
    traces = [
        _bars("faster", faster, "faster"),
        _bars("slower", slower, "slower"),
        _bars("together", steps[-1:], "estimate"),
    ]
    return {"data": traces, "layout": {**layout, "barmode": "overlay", "bargap": 0.25, "showlegend": False}}


def _steps(differences: list[Part]) -> list[Step]:
    """The last one is the sum."""
    shown, rest = differences[:STEPS], differences[STEPS:]
    if len(rest) == 1:
        shown, rest = differences, []
    named = len(shown) <= NAMED
    rows = [
        (label(part.number, part.name) if named else part.number, part.difference_s, f"{part.number} {part.name}")
        for part in shown
    ]
    if rest:
        rows.append((f"{len(rest)} others", sum(part.difference_s for part in rest), f"{len(rest)} others"))
    steps, reached_s = [], 0.0
    for told, difference_s, tasks in rows:
        steps.append(Step(told, reached_s, difference_s, tasks))
        reached_s += difference_s
    return (
        [*steps, Step("together", 0.0, reached_s, f"all {len(differences)} tasks that both have measured")]
        if steps
        else []
    )


def _bars(name: str, steps: list[Step], role: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": [step.label for step in steps],
        "base": [step.base_s for step in steps],
        "y": [step.difference_s for step in steps],
        "customdata": [step.difference_s for step in steps],
        "text": [step.tasks for step in steps],
        "textposition": "none",
        "meta": {"role": role},
        "marker": {},
        "hovertemplate": "%{customdata:+.4s}s<br>%{text}<extra></extra>",
    }
