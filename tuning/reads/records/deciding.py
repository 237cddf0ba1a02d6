"""What the trials of a task decided, and which of these decisions matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tuning.models import Task, step_for
from tuning.schedules.choices import Value, choices_of, loops_of
from tuning.schedules.importance import Importance, importance

from .lines import lines
from .of_trial import Missing

MOST_TRIALS = 1000
"""That are read, thinned as the scatter is."""
CACHED = 16

Name = tuple[str, str]
"""What was decided, and which of its numbers."""


class Tried(NamedTuple):
    """One valid trial, and its value of each choice."""

    number: int
    latency_s: float
    values: dict[Name, Value]


class Space(NamedTuple):
    """The trials of one design space; `importance` is None if it can't be told."""

    trials: list[Tried]
    importance: Importance[Name] | None


class Decided(NamedTuple):
    """Design spaces, the one with most trials first. One in `step` trials was read; `unread` of these have no record that can be read."""

    spaces: list[Space]
    step: int
    unread: int


def decided(task: Task) -> Decided:
    """What the valid trials of the task decided so far. Raises `Missing`."""
    run = task.run
    if run.synthetic:
        raise Missing("The run is synthetic: its trials have no records.")
    try:
        return _decided(run.record_file, run.engine, task.pk, task.trials, run.trials_done)
    except FileNotFoundError:
        raise Missing("The run’s record file isn’t here anymore, so its trials’ decisions aren’t known.") from None
    except OSError as error:
        raise Missing(f"The run’s record file can’t be read: {error}.") from error


@lru_cache(maxsize=CACHED)
def _decided(path: Path, engine: str, key: int, count: int, last: int) -> Decided:
    """The file's name has the time at which the run was made, and its lines never change: the task's number of trials says how new it is."""
    task = Task.objects.select_related("run").get(pk=key)
    step = step_for(count, MOST_TRIALS)
    latencies = dict(_latencies(task, last, step))
    spaces, names, unread = defaultdict[str, list[Tried]](list), loops_of(task.tensorir), 0
    for number, text in lines(path, sorted(latencies)):
        try:
            found = choices_of(engine, text or b"", names)
        except ValueError:
            unread += 1
            continue
        values = {(one.of, one.part): one.value for one in found.choices}
        spaces[found.space].append(Tried(number, latencies[number], values))
    largest = sorted(spaces.values(), key=len, reverse=True)
    return Decided([Space(trials, _importance(trials)) for trials in largest], step, unread)


def _latencies(task: Task, last: int, step: int) -> Iterator[tuple[int, float]]:
    """Of one in `step` valid trials of the run, and of the task's improvements."""
    trials = task.run.trials.filter(task=task, number__lte=last).valid()
    for found in (trials.thinned(step.bit_length() - 1), trials.improvements()):
        for number, latency_s in found.values_list("number", "latency_s"):
            if latency_s is not None:
                yield number, latency_s


def _importance(trials: list[Tried]) -> Importance[Name] | None:
    columns = {name: [one.values.get(name) for one in trials] for name in trials[0].values}
    return importance(columns, [one.latency_s for one in trials])
