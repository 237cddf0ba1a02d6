"""Match the tasks of several runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from tuning.models import Task

from .shapes import MatchedBy

AUTOTVM = "autotvm"


@dataclass
class Match:
    """Equal tasks of several runs by the run's position, at most one of each run."""

    tasks: dict[int, Task]
    by: MatchedBy = "workload"

    @property
    def first(self) -> Task:
        """The task of the first run that has it."""
        return self.tasks[min(self.tasks)]


def matched(tasks: Sequence[Sequence[Task]]) -> list[Match]:
    """Match tasks by workload, the remaining ones by name and shapes, and those of different engines by shapes alone."""
    alike: dict[Hashable, list[Match]] = defaultdict(list)
    matches = []
    for group in _by_workload(tasks):
        match = Match(group)
        key = match.first.name, _shapes(match.first)
        home = next((one for one in alike[key] if one.tasks.keys().isdisjoint(group)), None)
        if home:
            home.tasks |= group
            home.by = "name"
        else:
            alike[key].append(match)
            matches.append(match)
    return _across_engines(matches)


def _by_workload(tasks: Sequence[Sequence[Task]]) -> Iterable[dict[int, Task]]:
    """Tasks that compute the same match, by whichever algorithms. A workload that occurs twice in a run is matched in order."""
    groups: dict[Hashable, dict[int, Task]] = {}
    for position, those in enumerate(tasks):
        seen: Counter[str] = Counter()
        for task in those:
            seen[task.function] += 1
            groups.setdefault((task.function, seen[task.function]), {})[position] = task
    return groups.values()


def _shapes(task: Task) -> Hashable:
    return tuple((tuple(arg["shape"]), arg["dtype"]) for arg in task.args)


def _across_engines(matches: Sequence[Match]) -> list[Match]:
    """Merge matches of different engines whose tensors have the same sizes: engines share neither hashes nor names.

    Tasks with all the same tensors come first.
    """
    for is_alike in (_has_same_sizes, _has_inputs_of_the_other):
        kept: list[Match] = []
        for match in matches:
            home = next((one for one in kept if _may_join(one, match) and is_alike(one.first, match.first)), None)
            if home:
                home.tasks |= match.tasks
                home.by = "shapes"
            else:
                kept.append(match)
        matches = kept
    return list(matches)


def _may_join(one: Match, other: Match) -> bool:
    engines = {task.run.engine for task in one.tasks.values()}
    return one.tasks.keys().isdisjoint(other.tasks) and engines.isdisjoint(
        task.run.engine for task in other.tasks.values()
    )


def _has_same_sizes(one: Task, other: Task) -> bool:
    return len(one.args) > 1 and _sizes(one) == _sizes(other)


def _has_inputs_of_the_other(one: Task, other: Task) -> bool:
    """AutoTVM's tasks have the inputs of one operator, others also have what is fused with it, and the output."""
    pairs = ((one, other), (other, one))
    return any(
        inputs.run.engine == AUTOTVM and len(inputs.args) > 1 and _sizes(inputs) <= _sizes(whole)
        for inputs, whole in pairs
    )


def _sizes(task: Task) -> Counter[int]:
    """The tensors by their number of elements, which doesn't depend on the layout."""
    return Counter(prod(arg["shape"]) for arg in task.args)
