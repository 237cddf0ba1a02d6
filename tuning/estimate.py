"""The estimated latency: the best latency of each task times its weight, summed over the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def weighted(latency_s: float | None, weight: int | None) -> float | None:
    """A task's part of the estimate in seconds; None without a measurement, or if the weight isn't recorded."""
    return None if latency_s is None or weight is None else latency_s * weight


def total(parts: Iterable[float | None]) -> float | None:
    """The sum of the tasks' parts in seconds; None unless there are tasks and all of them are measured."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return sum(known) if known and len(known) == len(found) else None


class RunningEstimate:
    """The estimate of the tasks with these weights while their latencies improve."""

    def __init__(self, weights: Mapping[int, int | None]) -> None:
        """If a weight isn't recorded, there never is an estimate. A task with the weight 0 is no part of it."""
        self._weights = {task: weight for task, weight in weights.items() if weight is not None}
        self._parts = dict.fromkeys(weights, 0.0)
        self._missing = {task for task, weight in weights.items() if weight != 0}

    def improve(self, task: int, latency_s: float) -> float | None:
        """The estimate once `task` has this latency; None while another task has none."""
        if task in self._weights:
            self._parts[task] = latency_s * self._weights[task]
            self._missing.discard(task)
        return None if self._missing else sum(self._parts.values())
