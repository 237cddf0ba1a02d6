"""Plotly figures, made of plain lists that `Plotly.extendTraces` can extend.

Colors aren't chosen here: a trace's `meta.task` selects a CSS variable, so that charts and tables agree in both
themes (`static/js/charts/chart.js`). `x` counts trials and `customdata` holds the seconds of the same points; the page swaps
them to plot against time. Latencies stay in seconds: the axis chooses an SI prefix at every zoom.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from dashboard.presentation.compilations import SIDES
from dashboard.presentation.units import recent_speed
from tuning.models import BenchmarkDict, LatencyDict, Run, Task
from tuning.reads.curves import CurvesDict
from tuning.reads.device_status import TrackerDict

SERIES = 8
"""Colors before they repeat with another dash; app.css has as many variables."""
HOVER_TIME = " · %{customdata:.1f} s"
"""The part of a point's text that tells its time; `chart.js` knows it, too."""
DASHES = ("solid", "dash", "dot", "dashdot")
MANY = 20
"""Most tasks that fit into a legend; with more, only the foremost are colored."""
MANY_DEVICES = 10
"""With fewer devices, each number has its own grid line."""
RECENT = 32
"""Trials that the current speed is computed from."""

SYMBOLS = ("circle", "square", "diamond", "triangle-up")
"""Distinguish points of the same color, as `DASHES` distinguish lines."""
FAILED_HEIGHT = 0.02
"""Height of failed trials in the plot, from 0 to 1; the same in task.js and trials.js."""

NOISE = "<br>noisy: other processes used the machine"
"""What the hover of a noisy trial says besides."""

LATENCY = "Latency"
"""Title of an axis."""
BETWEEN_DECADES = {
    f"{digit * scale}{prefix}": f"{digit * scale}{prefix}s" if digit in (2, 5) else ""
    for prefix in ("n", "µ", "m", "")
    for scale in (1, 10, 100)
    for digit in range(2, 10)
}
"""Labels of a logarithmic axis. Plotly's own lack the suffix and are crowded."""

Point = tuple[int, float | None]
"""A trial's number and its seconds since the run began; None if they aren't recorded."""
Value = tuple[int, float | None, float]
"""The same, and what is drawn at this point."""


class TaskTrial(NamedTuple):
    """A trial of one task. If trials are thinned, improvements are still complete."""

    number: int
    nth: int
    """Its number among those of the task, from 1."""
    at_s: float | None
    """Since the run began; None if it isn't recorded."""
    latency_s: float | None
    short: bool
    improved: bool
    """Whether it was the task's best when it was measured."""
    noisy: bool

    def point(self, value: float) -> Value:
        return self.nth, self.at_s, value

    @property
    def told(self) -> str:
        """What its hover says besides."""
        return f"<br>the run’s trial {self.number:,}{NOISE if self.noisy else ''}"


class FigureDict(TypedDict):
    data: list[dict[str, Any]]
    layout: dict[str, Any]


class RunFiguresDict(TypedDict):
    """The run page's figures up to trial `last`; `recent_at_s` are the times of the latest trials.

    `weights` are 0 for tasks that aren't tuned, since they aren't part of the estimate, and null where they aren't recorded.
    `foremost` is the number of tasks to highlight, those with the largest share of the estimate; None highlights all.
    """

    run: int
    last: int
    recent_at_s: list[float]
    weights: list[int | None]
    foremost: int | None
    latency: FigureDict
    allocation: FigureDict
    estimate: FigureDict


def series(index: int) -> int:
    """Index of the task's color in the palette."""
    return index % SERIES


def dash(index: int) -> str:
    """Distinguishes tasks of the same color."""
    return DASHES[index // SERIES % len(DASHES)]


def recent_times(run: Run) -> list[float]:
    """Seconds of the run's latest trials, oldest first; without those whose time isn't recorded."""
    newest = run.trials.order_by("-number").values_list("at_s", flat=True)[:RECENT]
    return [at_s for at_s in newest if at_s is not None][::-1]


def run_speed(run: Run) -> float | None:
    """Current trials per second; None if the run isn't live or too few trials have ended."""
    return recent_speed(recent_times(run)) if run.is_live else None


def run_figures(run: Run, curves: CurvesDict) -> RunFiguresDict:
    """All figures of the run page."""
    times = recent_times(run)
    end = (curves["last"], times[-1] if times else run.elapsed_s)
    weights = [task.weight if task.chosen else 0 for task in run.tasks.all()]
    drawn = [told(run, figure) for figure in (_latency(curves, end), _allocation(curves, end), _estimate(curves, end))]
    return {
        "run": run.pk,
        "last": curves["last"],
        "recent_at_s": times,
        "weights": weights,
        "foremost": SERIES if len(weights) > MANY else None,
        "latency": drawn[0],
        "allocation": drawn[1],
        "estimate": drawn[2],
    }


def told(run: Run, figure: FigureDict, task: Task | None = None) -> FigureDict:
    """The figure with the run's sessions marked, without times that aren't recorded, and with a simulator's times called so.

    `task`: the figure counts the trials of this task.
    """
    figure["layout"]["meta"]["sessions"] = _sessions(run, task)
    if run.simulator and (title := figure["layout"]["yaxis"]["title"])["text"] == LATENCY:
        title["text"] = "Simulator’s wall time"
    if not run.is_timed:
        for trace in figure["data"]:
            trace["hovertemplate"] = trace["hovertemplate"].replace(HOVER_TIME, "")
    return figure


def _sessions(run: Run, task: Task | None) -> list[dict[str, Any]]:
    """Where each later session of somebody else's tuner begins; for a task, where its first trial after that is."""
    later = [session["trial"] for session in run.sessions[1:]]
    if task is not None:
        own = run.trials.filter(task=task).order_by("number").values("nth", "at_s")
        found = [own.filter(number__gte=number).first() for number in later]
        return [{"number": first["nth"], "at_s": first["at_s"]} for first in found if first]
    times = dict(run.trials.filter(number__in=later).values_list("number", "at_s")) if later else {}
    return [{"number": number, "at_s": times.get(number)} for number in later]


def task_figure(task: Task, rows: Iterable[TaskTrial], end: Point) -> FigureDict:
    """One task's trials, short measurements, failures, and best so far; `rows` sorted by number.

    `x` counts the trials of the task, which may be a small part of the run's. `end` is its last one.
    """
    rows = list(rows)
    valid = [(row, row.latency_s) for row in rows if row.latency_s is not None]
    full, brief = ([one for one in valid if one[0].short is short] for short in (False, True))
    failed = [row for row in rows if row.latency_s is None]
    best = [row.point(latency) for row, latency in valid if row.improved]
    noisy = [row.point(latency) for row, latency in valid if row.noisy]
    dots = {"mode": "markers", "marker": {"size": 5}, "hovertemplate": _hover("latency", more=True)}
    rings = {"mode": "markers", "marker": {"size": 5, "symbol": "circle-open"}}
    rings["hovertemplate"] = _hover("latency, cut short (slow)", more=True)
    crosses = _failed([row.point(FAILED_HEIGHT) for row in failed])
    crosses["hovertemplate"] = crosses["hovertemplate"].replace(HOVER_TIME, f"{HOVER_TIME}%{{text}}")
    layout = _trials_layout()
    layout["xaxis"]["title"] = {"text": "Trial of the task"}
    return {
        "data": [
            {**_trace("trials", _measured(full), {"role": "trials"}), **dots, "text": [row.told for row, _ in full]},
            {
                **_trace("cut short (slow)", _measured(brief), {"role": "short"}),
                **rings,
                "text": [row.told for row, _ in brief],
            },
            {**crosses, "text": [row.told for row in failed]},
            {**_noisy(noisy), "text": []},
            {**steps("best so far", best, end, {"task": task.index}), "hovertemplate": _hover("best"), "text": []},
        ],
        "layout": layout,
    }


def _measured(trials: Iterable[tuple[TaskTrial, float]]) -> list[Value]:
    return [trial.point(latency_s) for trial, latency_s in trials]


def scatter_figure(tasks: Sequence[Task], *, only_failed: bool = False) -> FigureDict:
    """An empty scatter of a run's trials, which the page fills: a trace per task, failed trials, and the selected trial.

    Where there are only failed trials, nothing has a latency, and tasks have no points.
    """
    dots = [
        {
            **_trace(_legend(task.index, task.name), [], {"task": task.index}),
            "mode": "markers",
            "marker": {"size": 5, "opacity": 0.75, "symbol": SYMBOLS[task.index // SERIES % len(SYMBOLS)]},
            "hovertemplate": _hover("latency", more=True),
            "text": [],
        }
        for task in tasks
    ]
    ring: dict[str, Any] = {"mode": "markers", "hoverinfo": "skip", "hovertemplate": _hover("latency")}
    ring["marker"] = {"size": 14, "symbol": "circle-open"}
    picked = {**_trace("looked at", [], {"role": "picked"}), **ring}
    layout = _trials_layout()
    if only_failed:
        layout["yaxis"] |= {"showticklabels": False, "showgrid": False}
        return {"data": [_failed([]), picked], "layout": layout}
    return {"data": [*dots, _failed([]), _noisy([]), picked], "layout": layout}


def foremost(tasks: Sequence[Task]) -> list[int] | None:
    """Indices of the tasks to highlight, those with the largest share of the estimate; None highlights all."""
    if len(tasks) <= MANY:
        return None
    ranked = sorted(tasks, key=lambda task: -(task.best_latency_s or 0.0) * (task.weight or 1) if task.chosen else 0.0)
    return sorted(task.index for task in ranked[:SERIES])


def _failed(points: Sequence[Value]) -> dict[str, Any]:
    """Failed trials at the bottom edge, however the latencies are zoomed."""
    crosses = {"mode": "markers", "yaxis": "y2", "marker": {"size": 6, "symbol": "x-thin"}}
    crosses["hovertemplate"] = "failed<br>trial %{x} · %{customdata:.1f} s<extra></extra>"
    return {**_trace("failed", points, {"role": "failed"}), **crosses}


def _noisy(points: Sequence[Value]) -> dict[str, Any]:
    """Rings around the points of noisy trials."""
    rings = {"mode": "markers", "marker": {"size": 10, "symbol": "circle-open", "opacity": 0.6}, "hoverinfo": "skip"}
    return {**_trace("noisy", points, {"role": "noisy"}), **rings, "hovertemplate": _hover("latency")}


def _trials_layout() -> dict[str, Any]:
    layout = layout_of("Latency of each trial", LATENCY, log=True, kind="s")
    edge = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    return {**layout, "yaxis2": edge, "showlegend": True}


def tracker_figure(tracker: TrackerDict) -> FigureDict:
    """A tracker's last hour: for each key the devices in use and, dotted, the waiting requests; gaps weren't recorded."""
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{history['key']} {words}",
            "x": tracker["at"],
            "y": values,
            "meta": {"task": index, "dash": line_dash},
            "line": {"shape": "hv"},
            "connectgaps": False,
            "customdata": [],
            "hovertemplate": f"%{{y}} {words}<br>%{{x|%H:%M:%S}} UTC<extra>{history['key']}</extra>",
        }
        for index, history in enumerate(tracker["history"])
        for values, words, line_dash in (
            (history["in_use"], "in use", "solid"),
            (history["pending"], "pending", "dot"),
        )
    ]
    whole: dict[str, Any] = {
        "title": {"text": "Devices, requests"},
        "rangemode": "tozero",
        "tickformat": "d",
        "minallowed": 0,
    }
    most = max(
        (value or 0 for history in tracker["history"] for value in history["total"] + history["pending"]), default=0
    )
    if most < MANY_DEVICES:
        whole["dtick"] = 1
    xaxis = {"title": {"text": "Time (UTC)"}, "type": "date"}
    return {"data": data, "layout": {"meta": {"title": "Devices in use"}, "xaxis": xaxis, "yaxis": whole}}


def benchmark_figure(benchmarks: Sequence[BenchmarkDict]) -> FigureDict:
    """Medians and ranges of repeated benchmarks over time; `benchmarks` newest first."""
    data = [
        _medians(name, [(one["at"], one[side]) for one in reversed(benchmarks)], index)  # type: ignore[literal-required]
        for index, (side, name) in enumerate(SIDES.items())
        if any(one[side] for one in benchmarks)  # type: ignore[literal-required]
    ]
    layout = layout_of("Benchmarks", "Latency", log=True, kind="s")
    return {"data": data, "layout": {**layout, "xaxis": {"title": {"text": "Time"}, "type": "date"}}}


def _medians(name: str, measured: Sequence[tuple[str, LatencyDict | None]], index: int) -> dict[str, Any]:
    points = [(at, latency) for at, latency in measured if latency is not None]
    medians = [latency["median_s"] for _, latency in points]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [at for at, _ in points],
        "y": medians,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [latency["max_s"] - latency["median_s"] for _, latency in points],
            "arrayminus": [latency["median_s"] - latency["min_s"] for _, latency in points],
            "thickness": 1,
        },
        "meta": {"task": index, "dash": "solid"},
        "line": {},
        "marker": {"size": 7},
        "customdata": [],
        "hovertemplate": f"median %{{y:.4s}}s<br>%{{x|%Y-%m-%d %H:%M:%S}} UTC<extra>{name}</extra>",
    }


def _latency(curves: CurvesDict, end: Point) -> FigureDict:
    traces = [
        {
            **steps(
                _legend(task["index"], task["name"]),
                _points(task["best"], "latency_s"),
                end,
                _look(task["index"], dashed=True),
            ),
            "hovertemplate": _hover("best"),
        }
        for task in curves["tasks"]
    ]
    return {"data": traces, "layout": layout_of("Best latency of each task", LATENCY, log=True, kind="s")}


def _allocation(curves: CurvesDict, end: Point) -> FigureDict:
    traces = [
        {
            # Solid, since dashes would hide the small steps of this curve.
            **steps(
                _legend(task["index"], task["name"]),
                _points(task["allocation"], "trials"),
                end,
                _look(task["index"], dashed=False),
            ),
            "hovertemplate": "%{y} trials<br>trial %{x} · %{customdata:.1f} s<extra>%{fullData.name}</extra>",
        }
        for task in curves["tasks"]
    ]
    return {"data": traces, "layout": layout_of("Trials given to each task", "Trials of the task", log=False, kind="")}


def _estimate(curves: CurvesDict, end: Point) -> FigureDict:
    trace = {
        **steps("estimated latency", _points(curves["estimate"], "latency_s"), end, {"role": "estimate"}),
        "hovertemplate": _hover("estimate"),
    }
    layout = layout_of("Estimated end-to-end latency", LATENCY, log=False, kind="s")
    return {"data": [trace], "layout": {**layout, "showlegend": False}}


def _points(columns: Any, values: str) -> list[Value]:
    return list(zip(columns["number"], columns["at_s"], columns[values], strict=True))


def _trace(name: str, points: Sequence[Value], meta: dict[str, Any]) -> dict[str, Any]:
    number, at_s, values = ([row[column] for row in points] for column in range(3))
    return {"type": "scatter", "name": name, "x": number, "customdata": at_s, "y": values, "meta": meta}


def steps(name: str, points: list[Value], end: Point, meta: dict[str, Any]) -> dict[str, Any]:
    """A step line whose last value extends to the run's end; `meta.held` says whether a point was added for that."""
    held = bool(points) and points[-1][0] < end[0]
    shown = [*points, (*end, points[-1][2])] if held else points
    line = {"mode": "lines", "line": {"shape": "hv", "width": 2}}
    return {**_trace(name, shown, {**meta, "steps": True, "held": held}), **line}


def _look(index: int, *, dashed: bool) -> dict[str, Any]:
    return {"task": index, "dash": dash(index) if dashed else "solid"}


def _legend(index: int, name: str) -> str:
    # The table has the full name; the legend must not take half of the chart.
    short = name if len(name) <= 28 else f"{name[:27]}…"
    return f"{index} {short}"


def _hover(what: str, *, more: bool = False) -> str:
    """`more`: each point has a text of its own, which may be empty."""
    text = "%{text}" if more else ""
    return f"{what} %{{y:.4s}}s<br>trial %{{x}} · %{{customdata:.1f}} s{text}<extra>%{{fullData.name}}</extra>"


def layout_of(title: str, values: str, *, log: bool, kind: str) -> dict[str, Any]:
    """Layout of a figure over trials; `values` is the title of the other axis, in seconds if `kind` is `s`."""
    yaxis: dict[str, Any] = {"title": {"text": values}, "type": "log" if log else "linear"}
    if kind == "s":
        # "12µ" + "s": the prefix follows the zoom.
        yaxis |= {"tickformat": "~s", "ticksuffix": "s", "labelalias": BETWEEN_DECADES}
    # The page can switch between a linear and a logarithmic axis, so each has the settings of the other.
    yaxis |= {"rangemode": "normal" if log else "tozero", "nticks": 8}
    return {"meta": {"title": title}, "xaxis": {"title": {"text": "Trial"}, "rangemode": "tozero"}, "yaxis": yaxis}
