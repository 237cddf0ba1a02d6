"""The curves of a run's charts, read from few rows however long the run is."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Prefetch, prefetch_related_objects
from typing_extensions import TypedDict

from tuning.estimate import RunningEstimate
from tuning.models import Run, Task, TrialQuerySet

Row = tuple[int, int, float | None, float | None, int]
"""A trial: its task's key, its number, seconds since the run began, latency in seconds, position among its task's trials."""

Point = tuple[int, float | None, float]
"""A trial's number, seconds since the run began (None if not recorded), latency in seconds."""


class LatencyColumns(TypedDict):
    """Points by trial number and by seconds since the run began (rounded to milliseconds, null if not recorded); latencies in seconds."""

    number: list[int]
    at_s: list[float | None]
    latency_s: list[float]


class AllocationColumns(TypedDict):
    """How many trials the task had at each point, by trial number and by seconds since the run began."""

    number: list[int]
    at_s: list[float | None]
    trials: list[int]


class TaskCurves(TypedDict):
    """`best` has every improvement; `scatter` and `allocation` are thinned, latencies rounded to five digits."""

    index: int
    name: str
    best: LatencyColumns
    scatter: LatencyColumns
    allocation: AllocationColumns


class CurvesDict(TypedDict):
    """All curves of a run up to trial `last`; the estimate is rounded to nine digits."""

    run: int
    last: int
    tasks: list[TaskCurves]
    estimate: LatencyColumns


def curves(run: Run, points: int = 2000) -> CurvesDict:
    """The run's curves; the scatter has about `points` trials, evenly spread."""
    prefetch_related_objects([run], Prefetch("tasks", Task.objects.defer("tensorir", "args")))
    tasks = list(run.tasks.all())
    last = run.trials_done
    shown, best = _by_task(tasks), _by_task(tasks)
    for row in _rows(run.trials.spread(last, points), last):
        shown[row[0]].append(row)
    improvements = list(_rows(run.trials.improvements(), last))
    for row in improvements:
        best[row[0]].append(row)
    return {
        "run": run.pk,
        "last": last,
        "tasks": [_of_task(task, shown[task.pk], best[task.pk]) for task in tasks],
        "estimate": _estimate(tasks, improvements),
    }


def _by_task(tasks: list[Task]) -> dict[int, list[Row]]:
    return {task.pk: [] for task in tasks}


def _rows(trials: TrialQuerySet, last: int) -> Iterator[Row]:
    """Trials up to `last`. Newer ones are dropped here since SQLite would choose a slower index for the condition."""
    found = trials.values_list("task_id", "number", "at_s", "latency_s", "nth")
    return (
        (key, number, None if at_s is None else round(at_s, 3), latency_s, nth)
        for key, number, at_s, latency_s, nth in found
        if number <= last
    )


def _of_task(task: Task, shown: list[Row], best: list[Row]) -> TaskCurves:
    return {
        "index": task.index,
        "name": task.name,
        "best": _latencies(_measured(best)),
        "scatter": _latencies([(number, at_s, float(f"{value:.5g}")) for number, at_s, value in _measured(shown)]),
        "allocation": {
            "number": [row[1] for row in shown],
            "at_s": [row[2] for row in shown],
            "trials": [row[4] for row in shown],
        },
    }


def _measured(rows: list[Row]) -> list[Point]:
    return [(number, at_s, latency_s) for _, number, at_s, latency_s, _ in rows if latency_s is not None]


def _estimate(tasks: list[Task], improvements: list[Row]) -> LatencyColumns:
    """The estimate after each improvement, starting when every chosen task has a valid trial."""
    running = RunningEstimate({task.pk: task.weight for task in tasks if task.chosen})
    points = []
    for key, number, at_s, latency_s, _ in improvements:
        if latency_s is not None and (estimate_s := running.improve(key, latency_s)) is not None:
            points.append((number, at_s, float(f"{estimate_s:.9g}")))
    return _latencies(points)


def _latencies(points: list[Point]) -> LatencyColumns:
    return {
        "number": [point[0] for point in points],
        "at_s": [point[1] for point in points],
        "latency_s": [point[2] for point in points],
    }
