"""The compare page's view, which is its URL, and its Plotly figures.

A trace's `meta.task` is the position of its run, which selects the color. The first four runs are drawn solid and the others
dashed, so nobody depends on color alone. As in `charts`, `x` counts trials and `customdata` holds the seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args, get_type_hints
from urllib.parse import urlencode

from django.urls import reverse
from typing_extensions import TypedDict

from dashboard.presentation.charts import FigureDict, Point, Value, layout_of, steps
from tuning.reads.comparing import ComparedRunDict, ComparedTaskDict, ComparisonDict

BARS = 24
"""Tasks in a chart, those with the largest contribution; the table has all."""
SOLID = 4
"""Runs whose curves are solid and whose bars are plain."""
NAMED = 8
"""Most tasks whose names fit below their bars; with more, there is only room for their numbers."""
LONGEST = 30

Values = list[Value]
"""Points of a curve: trial number, seconds since the run began, value."""


@dataclass(frozen=True)
class View:
    """The page's whole state. If `baseline` is None, it is the first run."""

    runs: tuple[int, ...]
    baseline: int | None = None
    x: Literal["trials", "time"] = "trials"
    scale: Literal["log", "linear"] = "log"
    values: Literal["absolute", "relative"] = "absolute"
    sort: Literal["total", "difference"] = "total"

    @classmethod
    def of(cls, runs: tuple[int, ...], baseline: int | None, asked: Mapping[str, str]) -> View:
        """The view of a URL; missing and unknown values become the default."""
        hints = get_type_hints(cls)
        words = {name: asked[name] for name in ("x", "scale", "values", "sort") if name in asked}
        return cls(runs, baseline, **{name: word for name, word in words.items() if word in get_args(hints[name])})  # type: ignore[arg-type]

    def url(self, **changes: Any) -> str:
        """The URL of the view with these changes."""
        changed = asdict(replace(self, **changes))
        if changed["baseline"] not in changed["runs"][1:]:
            changed["baseline"] = None
        defaults = asdict(View(changed["runs"]))
        query = {name: value for name, value in changed.items() if value != defaults[name]}
        query["runs"] = ",".join(map(str, changed["runs"]))
        return f"{reverse('compare')}?{urlencode({'runs': query.pop('runs'), **query}, safe=',')}"


class FiguresDict(TypedDict):
    """The page's figures, and the texts for those without points."""

    estimate: FigureDict
    tasks: FigureDict
    allocation: FigureDict
    speed: FigureDict
    empty: dict[str, str]


def figures(comparison: ComparisonDict, view: View) -> FiguresDict:
    alone = "No task occurs in more than one of these runs."
    without = "The baseline has no estimate: choose another baseline." if view.values == "relative" else ""
    return {
        "estimate": _estimates(comparison, view),
        "tasks": _tasks(comparison, view),
        "allocation": _allocation(comparison, view),
        "speed": _speeds(comparison),
        "empty": {
            "estimate": without or _unknown(comparison),
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


def title(run: ComparedRunDict) -> str:
    """A run's number and name, shortened for a legend."""
    name = run["run"]["name"]
    simulated = ", simulated" if run["run"]["simulator"] else ""
    return f"#{run['run']['id']} {name if len(name) <= LONGEST else f'{name[: LONGEST - 1]}…'}{simulated}"


def ordered(comparison: ComparisonDict, view: View) -> list[ComparedTaskDict]:
    """The tasks, sorted by their contribution to the total or by their largest difference."""
    if view.sort == "total":
        return comparison["tasks"]
    return sorted(comparison["tasks"], key=_largest_difference, reverse=True)


def number(comparison: ComparisonDict, task: ComparedTaskDict) -> tuple[int, str]:
    """A task's number in the baseline, or in the first run that has it, and as it is shown.

    The latter is `3 of #7`, since the baseline's 3 is another task.
    """
    keys = [run["run"]["id"] for run in comparison["runs"]]
    numbers = {key: cell["task"] for key, cell in zip(keys, task["cells"], strict=True) if cell}
    base = comparison["baseline"]
    if base in numbers:
        return numbers[base], str(numbers[base])
    key, first = next(iter(numbers.items()))
    return first, f"{first} of #{key}"


def _largest_difference(task: ComparedTaskDict) -> float:
    return max((abs(cell["difference_s"] or 0.0) for cell in task["cells"] if cell), default=0.0)


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
    return {"data": traces, "layout": layout}


def _relative_estimates(comparison: ComparisonDict, *, by_time: bool, logarithmic: bool) -> FigureDict:
    base = next(run for run in comparison["runs"] if run["run"]["id"] == comparison["baseline"])
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
    return {"data": traces, "layout": layout}


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
    relative = view.values == "relative"
    what = f"Difference from run {comparison['baseline']}" if relative else "Best latency"
    layout = layout_of("Best latency of each task", what, log=False, kind="" if relative else "s")
    if relative:
        layout["yaxis"] |= {"ticksuffix": " %", "rangemode": "normal", "zeroline": True}
    hover = "%{y:+.1f} %<br>%{customdata:.4s}s" if relative else "%{y:.4s}s"

    def value(cell: Any) -> float | None:
        if not relative:
            return cell["latency_s"]  # type: ignore[no-any-return]
        return None if cell["ratio"] is None else (cell["ratio"] - 1) * 100

    return _bars(comparison, ordered(comparison, view)[:BARS], layout, value, hover, also="latency_s")


def _allocation(comparison: ComparisonDict, view: View) -> FigureDict:
    layout = layout_of("Trials given to each task", "Share of the run's trials", log=False, kind="")
    layout["yaxis"]["tickformat"] = ".0%"
    hover = "%{y:.1%} of its trials: %{customdata}"
    return _bars(
        comparison, ordered(comparison, view)[:BARS], layout, lambda cell: cell["trials_share"], hover, also="trials"
    )


def _bars(  # noqa: PLR0913 - what the two charts of bars differ in
    comparison: ComparisonDict,
    tasks: list[ComparedTaskDict],
    layout: dict[str, Any],
    value: Any,
    hover: str,
    *,
    also: str,
) -> FigureDict:
    """A group of bars for each task, with one bar per run; `also` is the field shown on hovering."""
    named = len(tasks) <= NAMED
    numbers = [number(comparison, task)[1] for task in tasks]
    labels = [_label(task, told) if named else told for task, told in zip(tasks, numbers, strict=True)]
    traces = []
    for place, run in enumerate(comparison["runs"]):
        cells = [(task["cells"][place], task, label) for task, label in zip(tasks, labels, strict=True)]
        shown = [
            (label, height, cell[also], task["name"])  # type: ignore[literal-required]
            for cell, task, label in cells
            if cell and (height := value(cell)) is not None
        ]
        traces.append(
            {
                "type": "bar",
                "name": title(run),
                "x": [label for label, _, _, _ in shown],
                "y": [height for _, height, _, _ in shown],
                "customdata": [told for _, _, told, _ in shown],
                "text": [name for _, _, _, name in shown],
                "textposition": "none",
                "meta": {"task": place},
                "marker": {"pattern": {"shape": "" if place < SOLID else "/", "fillmode": "overlay", "size": 4}},
                "hovertemplate": f"{hover}<br>%{{text}}<extra>%{{fullData.name}}</extra>",
            }
        )
    layout["xaxis"] = {
        "title": {"text": "" if named else f"Task of run {comparison['baseline']}"},
        "type": "category",
        "categoryorder": "array",
        "categoryarray": labels,
        "tickfont": {"size": 11},
    }
    return {"data": traces, "layout": {**layout, "bargap": 0.25}}


def _label(task: ComparedTaskDict, told: str) -> str:
    name = task["name"]
    return f"{told} {name if len(name) <= LONGEST else f'{name[: LONGEST - 1]}…'}"


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
