"""Keeps what the machine is like while a run measures on it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from tuning.models import ConditionSample, ConditionSession, Machine, Run

EVERY_S = 5.0
"""As often as machines tell their load."""
MOST = 480
"""Samples of a run. When it has more, every two become one, and each further one covers twice the time."""


class Conditions:
    """The samples of one session of a run. Only its supervisor may use it, while the run is its own."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._due = float("-inf")
        self._began = False
        self._pending: list[ConditionSample] = []
        self._together = 1
        """How many looks make one sample."""

    def look(self, elapsed_s: float, done: int) -> None:
        """Take a sample if it is time to. A machine that isn't heard of tells nothing."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY_S
        machine = Machine.objects.alive().filter(runs=self._run).first()
        if machine is None:
            return
        if not self._began:
            self._begin(machine, elapsed_s)
        self._pending.append(_sample(self._run, machine.load, elapsed_s, done))
        if len(self._pending) >= self._together:
            with transaction.atomic():
                _merged(self._pending).save()
                self._thin()
            self._pending = []

    def _begin(self, machine: Machine, elapsed_s: float) -> None:
        told = machine.load.get("processor") or {}
        ConditionSession.objects.create(run=self._run, at_s=elapsed_s, machine=machine.name, processor=told)
        stored = list(self._run.condition_samples.values_list("at_s", flat=True)[:2])
        if len(stored) == 2:  # As far apart as those of earlier sessions.
            self._together = max(1, round((stored[1] - stored[0]) / EVERY_S))
        self._began = True

    def _thin(self) -> None:
        if self._run.condition_samples.count() <= MOST:
            return
        samples = list(self._run.condition_samples.all())
        self._together *= 2
        kept = [_merged(samples[first : first + 2]) for first in range(0, len(samples), 2)]
        self._run.condition_samples.all().delete()
        ConditionSample.objects.bulk_create(kept)


def _sample(run: Run, load: dict[str, Any], elapsed_s: float, done: int) -> ConditionSample:
    """`load` is a machine's, which an earlier version may have told."""
    clock = load.get("clock") or {}
    return ConditionSample(
        run=run,
        at_s=elapsed_s,
        done=done,
        others_cores=load.get("others_cores"),
        cpus=load.get("cpus"),
        mhz=clock.get("mhz"),
        least_mhz=clock.get("least_mhz"),
        celsius=clock.get("celsius"),
    )


def _merged(samples: Sequence[ConditionSample]) -> ConditionSample:
    """One sample for several in a row."""
    last = samples[-1]

    def told(name: str) -> list[float]:
        return [value for sample in samples if (value := getattr(sample, name)) is not None]

    return ConditionSample(
        run_id=last.run_id,
        at_s=last.at_s,
        done=last.done,
        others_cores=_mean(told("others_cores")),
        cpus=last.cpus,
        mhz=_mean(told("mhz")),
        least_mhz=min(told("least_mhz"), default=None),
        celsius=max(told("celsius"), default=None),
    )


def _mean(values: Iterable[float]) -> float | None:
    given = list(values)
    return round(sum(given) / len(given), 2) if given else None
