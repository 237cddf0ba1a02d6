"""The run's reference: one record that is measured again every so often, which tells how noisy measurements are. No TVM here."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

from tuning.engines.measuring.outcomes import Failure, Runner, Timing
from tuning.engines.wire.protocol import Reference as Asked

from .built import Built

logger = logging.getLogger("tuneboard")
LEAST_S, MOST_S = 1e-6, 1.0
"""Latencies that are worth measuring again: of shorter ones, calls and timers are most; longer ones would take too much of the time."""


class Reference:
    """The first good trial's record, built, and when it is measured next. Several threads may measure trials; one at a time measures this."""

    def __init__(
        self,
        runner: Runner,
        asked: Asked,
        report: Callable[[int, float], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` is given the trial and each latency in seconds."""
        self._runner = runner
        self._asked = asked
        self._report = report
        self._clock = clock
        self._chosen: tuple[int, Built] | None = None
        self._due = 0.0
        self._sought = True
        self._choosing = threading.Lock()
        self._measuring = threading.Lock()

    def use(self, trial: int, built: Built | None) -> None:
        """Go on with the reference of an earlier process of the run; None if it couldn't be built again. Then there is none anymore."""
        self._sought = False
        if built:
            self._choose(trial, built)

    def spare(self, built: Built) -> Built | None:
        """Copy what is about to be measured, and so deleted, in case it becomes the reference; None if that is chosen."""
        if not self._sought:
            return None
        copy = built.path.with_name(f"reference-{built.path.name}")
        shutil.copyfile(built.path, copy)
        return replace(built, path=copy)

    def consider(self, trial: int, spared: Built | None, outcome: Timing | Failure) -> None:
        """Choose this trial if it is the first good one."""
        if spared is None:
            return
        with self._choosing:
            chosen = self._sought and is_good(outcome)
            self._sought = self._sought and not chosen
        if chosen:
            tell_chosen(trial)
            self._choose(trial, spared)
        else:
            spared.path.unlink()

    @property
    def is_due(self) -> bool:
        """Whether it was measured long enough ago."""
        return self._chosen is not None and self._clock() >= self._due

    def measure_if_due(self) -> None:
        """Measure it if that was long enough ago and no other thread does, and report its latency."""
        if not self._measuring.acquire(blocking=False):
            return
        try:
            if self._chosen is not None and self.is_due:
                self._measure(*self._chosen)
        finally:
            self._measuring.release()

    def _measure(self, trial: int, built: Built) -> None:
        began = self._clock()
        copy = built.path.with_name(f"again-{built.path.name}")
        shutil.copyfile(built.path, copy)
        outcome = self._runner.run(copy, built.device, built.args, None, built.cold_bytes)
        ended = self._clock()
        if isinstance(outcome, Timing):
            used_s = ended - began if outcome.used_s is None else outcome.used_s
            self._due = ended + pause_s(self._asked, used_s)
            self._report(trial, fmean(outcome.run_secs))
        else:
            tell_failed(outcome)
            self._chosen = None

    def _choose(self, trial: int, built: Built) -> None:
        self._due = self._clock() + self._asked.every_s
        self._chosen = trial, built


def is_good(outcome: Timing | Failure) -> bool:
    """Whether a trial that ended so may be the reference."""
    return isinstance(outcome, Timing) and not outcome.short and LEAST_S <= fmean(outcome.run_secs) <= MOST_S


def pause_s(asked: Asked, used_s: float) -> float:
    """How long after a measurement that used a device for so long the next one is due."""
    return max(asked.every_s, used_s / asked.most_share)


def tell_chosen(trial: int) -> None:
    """Tell the console which record it is."""
    logger.info("The record of trial #%d is measured again from time to time, to tell noise and drift.", trial)


def tell_failed(failure: Failure) -> None:
    """Tell the console why it isn't measured any more."""
    logger.warning("The reference can't be measured anymore: %s", failure.text)
