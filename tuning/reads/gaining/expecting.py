"""What more trials of a run are expected to gain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from tuning.gain import Curve, Gain, forecast_gain
from tuning.models import Run, Task

SEARCH, KIND = "evolutionary", "llvm"
"""The strategy and the kind of targets of the runs that forecasts were checked on."""
FEWEST = 64
"""Trials of such a run from which on they were checked."""
ROUND = (5, 2, 1)
"""Round numbers of trials are these times a power of ten."""


class ForecastDict(TypedDict):
    """What `trials` more are expected to gain, with the bounds of an 80 % interval: in seconds of the estimate, and as shares of it."""

    trials: int
    expected_s: float
    least_s: float
    most_s: float
    expected: float
    least: float
    most: float


def expected(run: Run, tasks: Sequence[Task], room_s: Mapping[int, float | None]) -> tuple[list[Task], Gain] | None:
    """The forecast, and the tasks that its `by_task` is about; None if it can't be told. `room_s` is how much each task can gain at most."""
    if not is_foreseeable(run):
        return None
    steps = _improvements(run)
    # Whatever computes the same as another task may not have been tried.
    measured = [task for task in tasks if task.chosen and task.pk in steps]
    curves = [
        Curve(task.weighted_latency_s or 0.0, task.trials, steps[task.pk], not task.plateaued, room_s.get(task.pk))
        for task in measured
    ]
    found = forecast_gain(curves, more(run), run.pace.round_size)
    return None if found is None else (measured, found)


def more(run: Run) -> int:
    """How many trials the verdict is about: those that its budget has left, or about half as many as there were; never more than these."""
    left = run.trials_left or 0
    if left > 0 and run.status != run.Status.FINISHED:
        return min(left, run.trials_done)
    power = 10 ** max(0, len(str(run.trials_done)) - 1)
    fitting = (number * size for size in (power, power // 10 or 1) for number in ROUND)
    return next((number for number in fitting if number <= 0.65 * run.trials_done), 1)


def to_dict(forecast: Gain, estimate_s: float) -> ForecastDict:
    return {
        "trials": forecast.trials,
        "expected_s": forecast.expected_s,
        "least_s": forecast.least_s,
        "most_s": forecast.most_s,
        "expected": forecast.expected_s / estimate_s,
        "least": forecast.least_s / estimate_s,
        "most": forecast.most_s / estimate_s,
    }


def is_foreseeable(run: Run) -> bool:
    """Whether it is like the runs that forecasts were checked on, and has gone far enough."""
    return will_be_foreseeable(run) and bool(run.estimated_latency_s) and run.trials_done >= FEWEST


def will_be_foreseeable(run: Run) -> bool:
    """Whether it is like these runs, however far it has gone."""
    if run.synthetic or not run.is_meta_schedule:
        return False
    kind = run.target.get("kind") if isinstance(run.target, dict) else None
    return kind == KIND and run.options.get("strategy", SEARCH) == SEARCH


def _improvements(run: Run) -> dict[int, list[tuple[int, float]]]:
    """By primary key of a task, its trials that were faster than all before: their positions and seconds."""
    steps: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for task, nth, latency_s in run.trials.improvements().values_list("task_id", "nth", "latency_s"):
        if latency_s is not None:
            steps[task].append((nth, latency_s))
    return steps
