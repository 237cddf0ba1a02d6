"""Match the tasks of several runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from tuning.models import Task

from .shapes import MatchedBy


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
    """Match tasks by workload, and the remaining ones by name and shapes."""
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
    """A workload that occurs twice in a run is matched in order."""
    groups: dict[Hashable, dict[int, Task]] = {}
    for position, those in enumerate(tasks):
        seen: Counter[str] = Counter()
        for task in those:
            seen[task.workload_hash] += 1
            groups.setdefault((task.workload_hash, seen[task.workload_hash]), {})[position] = task
    return groups.values()


def _shapes(task: Task) -> Hashable:
    return tuple((tuple(arg["shape"]), arg["dtype"]) for arg in task.args)
