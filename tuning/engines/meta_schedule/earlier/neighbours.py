"""The fastest schedules of a run's tasks, for tasks that are like them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import fmean
from typing import Any, NamedTuple

from tuning.engines.meta_schedule.strategies import hash_of
from tuning.engines.wire.protocol import TaskInfo
from tuning.likeness import Shapes, distance, operators

SLOWNESS = 8.0
"""How far away a task seems whose schedule reaches half the FLOPS of the best one: as far as one with shapes of this distance."""


class _Best(NamedTuple):
    latency_s: float
    trace: Any


class Neighbours:
    """Offers each task the schedules of others with the same operators, each once: those that are near and use the CPU well come first."""

    def __init__(self, tasks: Sequence[TaskInfo]) -> None:
        self._flop = [task.flop for task in tasks]
        self._distances = _distances(tasks)
        self._best: dict[int, _Best] = {}
        self._offered: dict[int, set[_Best]] = defaultdict(set)
        self._seen: dict[int, set[int]] = defaultdict(set)
        """By task, the structural hashes of what was measured or is about to be."""
        self._adapted: dict[int, set[int]] = defaultdict(set)
        """Those that were adapted."""
        self._led_by: set[int] = set()
        """Tasks whose fastest schedule was adapted."""

    def learn(self, task: int, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Remember what was measured of the task. Takes TVM's objects."""
        for candidate, result in zip(candidates, results, strict=True):
            own = hash_of(candidate)
            self._seen[task].add(own)
            if result.run_secs and self.know(task, fmean(map(float, result.run_secs)), candidate.sch.trace):
                (self._led_by.add if own in self._adapted[task] else self._led_by.discard)(task)

    def know(self, task: int, latency_s: float, trace: Any) -> bool:
        """Remember the schedule if none of the task is faster, and return whether that is so."""
        if task in self._best and latency_s >= self._best[task].latency_s:
            return False
        self._best[task] = _Best(latency_s, trace)
        return True

    @property
    def summary(self) -> str:
        """What came of them, as a sentence."""
        tried = sum(map(len, self._adapted.values()))
        return f"{tried} trials were schedules of similar tasks; {len(self._led_by)} of {len(self._best)} tasks have their best latency from one."

    def offer(self, task: int, space: Any, most: int) -> list[Any]:
        """Candidates for the task that weren't offered or measured yet, adapted within its `Space`."""
        return list(islice(self._new(task, space), most))

    def _new(self, task: int, space: Any) -> Iterator[Any]:
        for best in self._nearest(task):
            if best in self._offered[task]:
                continue
            self._offered[task].add(best)
            candidate = space.adapted(best.trace)
            if candidate is not None and (own := hash_of(candidate)) not in self._seen[task]:
                self._seen[task].add(own)
                self._adapted[task].add(own)
                yield candidate

    def _nearest(self, task: int) -> list[_Best]:
        known = [other for other in self._distances[task] if other in self._best]
        most = max((self._flops(other) for other in known), default=0.0)

        def away(other: int) -> float:
            flops = self._flops(other)
            return self._distances[task][other] + (SLOWNESS * math.log2(most / flops) if flops else 0.0)

        return [self._best[other] for other in sorted(known, key=away)]

    def _flops(self, task: int) -> float:
        return self._flop[task] / self._best[task].latency_s


def _distances(tasks: Sequence[TaskInfo]) -> dict[int, dict[int, float]]:
    """By task, how far away the others are, as far as they are like it at all."""
    return {
        one.index: {
            other.index: away for other in tasks if other is not one and (away := _distance(one, other)) < math.inf
        }
        for one in tasks
    }


def _distance(one: TaskInfo, other: TaskInfo) -> float:
    """That of what their first operators take and of the results, and 1 for each further operator that only one of them has.

    What is fused with a convolution matters little for its tiles.
    """
    ours, theirs = (operators(task.name).removeprefix("fused_").split("_") for task in (one, other))
    if ours[0] != theirs[0]:
        return math.inf
    fused = Counter(ours), Counter(theirs)
    return distance(_shapes(one), _shapes(other)) + (fused[0] - fused[1]).total() + (fused[1] - fused[0]).total()


def _shapes(task: TaskInfo) -> Shapes:
    return [(tuple(arg.shape), arg.dtype) for arg in (*task.args[:2], task.args[-1])]
