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
from tuning.engines.wire.protocol import CONFIRM_ROUNDS, Confirmed
from tuning.logs.meta_schedule import BestRecord

from .built import Built
from .turns import rounds

logger = logging.getLogger("tuneboard")
NEAR = 0.1
"""A record that took so much longer than its task's best isn't measured again: it wasn't unlucky."""
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
        began, done, tried = self.clock(), 0, 0
        for place, (task, records) in enumerate(best.items(), start=1):
            took_s = self.clock() - began
            if took_s > within_s:
                logger.info(
                    "Confirmed %d of %d tasks: no more time than %.0f s is spent on it.", done, len(best), within_s
                )
                return
            self.begin(task)
            near = [record for record in records if record.latency_s <= records[0].latency_s * (1 + NEAR)]
            if tried and took_s:
                near = near[: _affordable(within_s - took_s, took_s / tried, len(best) - place)]
            tried += len(near)
            if measured := self._measured(near):
                done += 1
                self._tell(task, measured)
        logger.info("Confirmed the best records of %d of %d tasks in %.1f s.", done, len(best), self.clock() - began)

    def _measured(self, records: Sequence[BestRecord]) -> dict[int, list[float]]:
        """The latencies by trial of those that could be measured in each round."""
        built = {records[index].trial: one for index, one in self.build([record.text for record in records])}
        latencies: dict[int, list[float]] = defaultdict(list)
        for outcomes in islice(rounds(built, self.runner), CONFIRM_ROUNDS):
            for trial, outcome in outcomes.items():
                if isinstance(outcome, Timing):
                    latencies[trial].append(fmean(outcome.run_secs))
        for one in built.values():
            one.path.unlink()
        return {trial: measured for trial, measured in latencies.items() if len(measured) == CONFIRM_ROUNDS}

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


def _affordable(left_s: float, record_s: float, tasks_after: int) -> int:
    """How many records of a task there is time for, if each takes so long and one of each later task is to be confirmed, too."""
    return max(1, int(left_s / record_s) - tasks_after)
