"""Which tasks of several runs are the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from tuning.models import Task

from .shapes import MatchedBy


@dataclass
class Match:
    """Tasks of several runs that are the same, by the run's position; of each run at most one."""

    tasks: dict[int, Task]
    by: MatchedBy = "workload"

    @property
    def first(self) -> Task:
        """Of the first run that has it."""
        return self.tasks[min(self.tasks)]


def matched(tasks: Sequence[Sequence[Task]]) -> list[Match]:
    """Each run's tasks beside those of the others: by workload, and what that leaves apart by name and shapes."""
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
    return matches


def _by_workload(tasks: Sequence[Sequence[Task]]) -> Iterable[dict[int, Task]]:
    """A workload that a run has twice is paired in order."""
    groups: dict[Hashable, dict[int, Task]] = {}
    for position, those in enumerate(tasks):
        seen: Counter[str] = Counter()
        for task in those:
            seen[task.workload_hash] += 1
            groups.setdefault((task.workload_hash, seen[task.workload_hash]), {})[position] = task
    return groups.values()


def _shapes(task: Task) -> Hashable:
    return tuple((tuple(arg["shape"]), arg["dtype"]) for arg in task.args)
