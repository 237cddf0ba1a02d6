"""What the charts of a run show, from few rows whatever the run's size."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import TypedDict

from .models import Run, Task, TrialQuerySet

Row = tuple[int, int, float, float | None, int]
"""Of a trial: its task's key, number, seconds since the run began, latency in seconds, count in its task."""

Improvement = tuple[int, int, float, float]
"""Of a trial that improved its task: the task's key, number, seconds since the run began, latency in seconds."""


class LatencyColumns(TypedDict):
    """Points by trial number and by seconds since the run began, to the millisecond; latencies in seconds."""

    number: list[int]
    at_s: list[float]
    latency_s: list[float]


class AllocationColumns(TypedDict):
    """How many trials the task had had at a trial number, and at seconds since the run began."""

    number: list[int]
    at_s: list[float]
    trials: list[int]


class TaskCurves(TypedDict):
    """`best` has each improvement, exactly; `scatter` and `allocation` are thinned, to five digits of a latency."""

    index: int
    name: str
    best: LatencyColumns
    scatter: LatencyColumns
    allocation: AllocationColumns


class CurvesDict(TypedDict):
    """All curves of a run up to its trial `last`."""

    run: int
    last: int
    tasks: list[TaskCurves]
    estimate: LatencyColumns


def curves(run: Run, points: int = 2000) -> CurvesDict:
    """The run's curves, its scatter thinned to at most `points` trials by level of detail."""
    tasks = list(run.tasks.all())
    shown = {task.pk: _empty(task) for task in tasks}
    last = run.trials_done
    for key, number, at_s, latency_s, nth in _rows(run.trials.thinned(_level(last, points)), last):
        allocation = shown[key]["allocation"]
        allocation["number"].append(number)
        allocation["at_s"].append(at_s)
        allocation["trials"].append(nth)
        if latency_s is not None:
            _append(shown[key]["scatter"], number, at_s, float(f"{latency_s:.5g}"))
    improvements = list(_improvements(run.trials.all(), last))
    for key, number, at_s, latency_s in improvements:
        _append(shown[key]["best"], number, at_s, latency_s)
    estimate = _estimate(tasks, improvements)
    return {"run": run.pk, "last": last, "tasks": list(shown.values()), "estimate": estimate}


def _rows(trials: TrialQuerySet, last: int) -> Iterator[Row]:
    """Those up to `last`. What was recorded since is left out here: asked for it, SQLite would read all by number."""
    for key, number, at_s, latency_s, nth in trials.values_list(
        "task_id", "number", "at_s", "latency_s", "nth"
    ).iterator():
        if number <= last:
            yield key, number, round(at_s, 3), latency_s, nth


def _improvements(trials: TrialQuerySet, last: int) -> Iterator[Improvement]:
    """An improvement has a latency: a failed trial improves nothing."""
    for key, number, at_s, latency_s, _nth in _rows(trials.improvements(), last):
        if latency_s is not None:
            yield key, number, at_s, latency_s


def _level(trials: int, points: int) -> int:
    """The lowest level of detail with at most `points` trials."""
    return max(0, (-(-trials // points) - 1).bit_length()) if trials else 0


def _estimate(tasks: list[Task], improvements: list[Improvement]) -> LatencyColumns:
    """Σ best × weight after each improvement, from the one on at which every chosen task has a valid trial."""
    weight = {task.pk: task.weight for task in tasks if task.chosen}
    parts = dict.fromkeys(weight, 0.0)
    missing = set(weight)
    columns = _no_points()
    for key, number, at_s, latency_s in improvements:
        if key in weight:
            parts[key] = latency_s * weight[key]
            missing.discard(key)
        if not missing:
            _append(columns, number, at_s, sum(parts.values()))
    return columns


def _append(columns: LatencyColumns, number: int, at_s: float, latency_s: float) -> None:
    columns["number"].append(number)
    columns["at_s"].append(at_s)
    columns["latency_s"].append(latency_s)


def _no_points() -> LatencyColumns:
    return {"number": [], "at_s": [], "latency_s": []}


def _empty(task: Task) -> TaskCurves:
    return {
        "index": task.index,
        "name": task.name,
        "best": _no_points(),
        "scatter": _no_points(),
        "allocation": {"number": [], "at_s": [], "trials": []},
    }
