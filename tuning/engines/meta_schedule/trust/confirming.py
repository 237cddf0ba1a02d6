"""Confirms the best records once a run has ended by itself: they are measured again in turn, so that the winner isn't just lucky. No TVM here."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median

from tuning.engines.measuring.outcomes import Runner, Timing
from tuning.engines.wire.options.meta_schedule import CONFIRM_ROUNDS
from tuning.engines.wire.protocol import Confirmed
from tuning.logs.meta_schedule import BestRecord

from .built import Built
from .turns import rounds

logger = logging.getLogger("tuneboard")
NEAR = 0.1
"""A record that took so much longer than its task's best isn't measured again: it wasn't unlucky."""
TOGETHER = 4
"""Tasks whose records are built at once."""
Build = Callable[[Sequence[str]], Iterable[tuple[int, Built]]]


@dataclass
class Confirming:
    """How records are built and measured again, and who is told. `begin` is called with each task."""

    build: Build
    runner: Runner
    begin: Callable[[int], object]
    report: Callable[[Confirmed], object]
    clock: Callable[[], float] = time.monotonic

    def confirm(self, best: Mapping[int, Sequence[BestRecord]], within_s: float) -> None:
        """Confirm tasks in this order, each given with its best records, fastest first, until the time is over.

        Where there isn't the time for all records, the first tasks get more of them than the last, which get one each.
        """
        began, left, done, tried = self.clock(), list(best.items()), 0, 0
        while left and (took_s := self.clock() - began) <= within_s:
            now, left = (left[:TOGETHER], left[TOGETHER:]) if tried else (left[:1], left[1:])
            near = {task: _near(records) for task, records in now}
            if tried and took_s:
                near = _affordable(near, int((within_s - took_s) / (took_s / tried)), len(left))
            tried += sum(map(len, near.values()))
            for task, built in self._built(near).items():
                if self.clock() - began <= within_s:
                    self.begin(task)
                    done += self._confirmed(task, built)
                for one in built.values():
                    one.path.unlink()
        why = "" if self.clock() - began <= within_s else f": no more time than {within_s:.0f} s is spent on it"
        logger.info("Confirmed %d of %d tasks in %.1f s%s.", done, len(best), self.clock() - began, why)

    def _built(self, records: Mapping[int, Sequence[BestRecord]]) -> dict[int, dict[int, Built]]:
        """By task and trial. Those of several tasks are built at once, so that no worker waits for another."""
        flat = [(task, record) for task, few in records.items() for record in few]
        built: dict[int, dict[int, Built]] = {task: {} for task in records}
        for index, one in self.build([record.text for _, record in flat]):
            task, record = flat[index]
            built[task][record.trial] = one
        return built

    def _confirmed(self, task: int, built: Mapping[int, Built]) -> bool:
        """Measure what was built of the task; whether any of it could be measured in each round."""
        latencies: dict[int, list[float]] = defaultdict(list)
        for outcomes in islice(rounds(built, self.runner), CONFIRM_ROUNDS):
            for trial, outcome in outcomes.items():
                if isinstance(outcome, Timing):
                    latencies[trial].append(fmean(outcome.run_secs))
        measured = {trial: each for trial, each in latencies.items() if len(each) == CONFIRM_ROUNDS}
        if measured:
            self._tell(task, measured)
        return bool(measured)

    def _tell(self, task: int, measured: dict[int, list[float]]) -> None:
        for trial, latencies in measured.items():
            logger.info(
                "[Task #%d] Trial #%d again: %.4f us (median of %d).",
                task,
                trial,
                median(latencies) * 1e6,
                CONFIRM_ROUNDS,
            )
        self.report(Confirmed(task, list(measured), list(measured.values())))


def _near(records: Sequence[BestRecord]) -> Sequence[BestRecord]:
    return [record for record in records if record.latency_s <= records[0].latency_s * (1 + NEAR)]


def _affordable(
    near: Mapping[int, Sequence[BestRecord]], records: int, tasks_after: int
) -> dict[int, Sequence[BestRecord]]:
    """Those that there is time for, if it is enough for so many records, and one of each later task is to be confirmed, too."""
    chosen: dict[int, Sequence[BestRecord]] = {}
    for place, (task, few) in enumerate(near.items(), start=1):
        spare = records - tasks_after - (len(near) - place)
        chosen[task] = few[: max(1, spare)]
        records -= len(chosen[task])
    return chosen
