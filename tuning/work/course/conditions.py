"""Keeps what the machines are like while they measure a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Count

from tuning.models import ConditionSample, ConditionSession, Machine, PoolMember, Run
from tuning.models.fleet import MachineQuerySet

EVERY_S = 5.0
"""As often as machines tell their load."""
MOST = 480
"""Samples of a run on one machine. When it has more, every two become one, and each further one covers twice the time."""
LEAST = 30
"""Machines of a pool share that number, but each may have so many."""


class Conditions:
    """The samples of one session of a run. Only its supervisor may use it, while the run is its own."""

    def __init__(self, run: Run, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._due = float("-inf")
        self._kept: dict[str, _Kept] = {}
        """By the name of the machine in a pool; without one, under an empty name."""

    def look(self, elapsed_s: float, done: int) -> None:
        """Take samples if it is time to. A machine that isn't heard of tells nothing."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + EVERY_S
        machines = list(self._measuring())
        self._begin([one for one in machines if self._key(one) not in self._kept], elapsed_s)
        with transaction.atomic():
            told = [(self._kept[self._key(one)], _sample(self._run, one.load, elapsed_s, done)) for one in machines]
            whole = [merged for kept, sample in told if (merged := kept.add(sample))]
            ConditionSample.objects.bulk_create(whole)
            for kept, _ in told:
                kept.thin(max(LEAST, MOST // len(self._kept)))

    def _measuring(self) -> MachineQuerySet:
        alive = Machine.objects.alive()
        if not self._run.has_pool:
            return alive.filter(runs=self._run)
        return alive.filter(pk__in=PoolMember.objects.active().filter(run=self._run).values("machine"))

    def _key(self, machine: Machine) -> str:
        return machine.name if self._run.has_pool else ""

    def _begin(self, machines: Sequence[Machine], elapsed_s: float) -> None:
        """Machines that weren't seen in this session yet."""
        if not machines:
            return
        sessions = (
            ConditionSession(run=self._run, at_s=elapsed_s, machine=one.name, processor=one.load.get("processor") or {})
            for one in machines
        )
        ConditionSession.objects.bulk_create(sessions)
        stored = self._run.condition_samples.order_by().values_list("machine").annotate(Count("pk"))
        counts = Counter(dict(stored))
        self._kept |= {key: _Kept(self._run, key, counts[key]) for key in map(self._key, machines)}


class _Kept:
    """The samples of one machine."""

    def __init__(self, run: Run, machine: str, stored: int) -> None:
        self._run = run
        self._machine = machine
        self._stored = stored
        self._pending: list[ConditionSample] = []
        self._together = 1
        """How many looks make one sample."""
        times = list(self._all().values_list("at_s", flat=True)[:2]) if stored > 1 else []
        if len(times) == 2:  # As far apart as those of earlier sessions.
            self._together = max(1, round((times[1] - times[0]) / EVERY_S))

    def add(self, sample: ConditionSample) -> ConditionSample | None:
        """What is to be stored now, if anything is."""
        self._pending.append(sample)
        if len(self._pending) < self._together:
            return None
        whole, self._pending = _merged(self._pending), []
        whole.machine = self._machine
        self._stored += 1
        return whole

    def thin(self, most: int) -> None:
        """Make one of every two stored samples if they are more."""
        if self._stored <= most:
            return
        samples = list(self._all())
        self._together *= 2
        kept = [_merged(samples[first : first + 2]) for first in range(0, len(samples), 2)]
        self._all().delete()
        ConditionSample.objects.bulk_create(kept)
        self._stored = len(kept)

    def _all(self) -> Any:
        return self._run.condition_samples.filter(machine=self._machine)


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
        machine=last.machine,
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
