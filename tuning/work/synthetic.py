"""Makes synthetic finished runs of any size for scale tests. Their trials are random, and they are marked `Run.synthetic`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from random import Random

from django.db import transaction
from django.utils import timezone

from tuning.engines.wire.protocol import ErrorKind, TaskInfo, TasksExtracted, TensorInfo, TrialMeasured
from tuning.models import Network, Project, Run, fingerprint

from .recorder import Recorder

BATCH = 10_000
"""Trials per transaction, which bounds memory whatever the run's size."""
NAME = "synthetic"
TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 8}
SEARCHED = 16
"""Trials in a row of the same task, as in a real search."""
SETTLED = 250
"""After this many trials, a task has most of its improvement behind it."""
ERRORS: tuple[tuple[ErrorKind, str], ...] = (
    ("build", "Made up: InternalError: Check failed: the loop's extent isn't divisible"),
    ("build", "Made up: TVMError: the binding of a thread exceeds its limit"),
    ("build_timeout", "Made up: the build took longer than 30 s"),
    ("run", "Made up: RuntimeError: illegal memory access"),
    ("run_timeout", "Made up: the measurement took longer than 10 s"),
)
KERNELS = (
    "fused_conv2d_add_relu",
    "fused_conv2d_add",
    "fused_matmul_add_gelu",
    "fused_softmax",
    "fused_mean",
    "pool2d",
)


class Busy(Exception):
    """Another synthetic run is being made in this database."""


def seed_run(trials: int, tasks: int, *, seed: int = 0, name: str | None = None) -> Run:
    """Record a run with so many random trials, batch by batch, as a supervisor would.

    Raises `Busy`. A run that couldn't be finished is deleted.
    """
    with unfinished(trials, tasks, seed=seed, name=name) as (recorder, events):
        while batch := list(islice(events, BATCH)):
            recorder.record(batch)
        _finish(recorder.run)
    return recorder.run


def seed_runs(runs: int, trials: int, tasks: int, *, seed: int = 0) -> Iterator[Run]:
    """Make so many runs. Small ones share a transaction, because committing takes longer than they do. Raises `Busy`."""
    together = max(1, BATCH // trials)
    for first in range(0, runs, together):
        seeds = range(seed + first, seed + min(first + together, runs))
        with transaction.atomic() if together > 1 else nullcontext():
            made = [seed_run(trials, tasks, seed=each) for each in seeds]
        yield from made


def random_trials(trials: int, tasks: int, *, seed: int = 0) -> Iterator[TrialMeasured]:
    """The trials that `seed_run` would record for the same arguments."""
    return _Tuning.of(tasks, seed).trials(trials)


@contextmanager
def unfinished(
    trials: int, tasks: int, *, seed: int = 0, name: str | None = None
) -> Iterator[tuple[Recorder, Iterator[TrialMeasured]]]:
    """The recorder of a running synthetic run with its tasks, and the trials to record.

    A run that isn't finished at the end is deleted. Raises `Busy`.
    """
    run = _claimed(trials, seed, name or f"Synthetic: {trials:,} trials of {tasks:,} task{'s' * (tasks != 1)}")
    try:
        recorder, drawn = Recorder(run), _Tuning.of(tasks, seed)
        recorder.record([drawn.announced()])
        yield recorder, drawn.trials(trials)
    finally:
        Run.objects.live().filter(pk=run.pk).delete()


def _claimed(trials: int, seed: int, name: str) -> Run:
    network, _ = Network.objects.get_or_create(fingerprint=fingerprint(NAME, {}), defaults={"name": NAME})
    with transaction.atomic():  # So that nobody sees it queued and announces it to a worker.
        run = Run.objects.create(
            project=Project.objects.default(),
            name=name,
            network=network,
            target=TARGET,
            device=NAME,
            options={"seed": seed},
            trials_budget=trials,
            queued_at=timezone.now(),
            synthetic=True,
        )
        if not run.claim():
            raise Busy("Another synthetic run is being made in this database.")
    return run


def _finish(run: Run) -> None:
    """Make it look as if tuning had ended now."""
    now = timezone.now()
    began = now - timedelta(seconds=run.elapsed_s or 0.0)
    ended = {"started_at": began, "finished_at": now, "finish_reason": "budget", "phase": None, "phase_task": None}
    # Moved rather than ended, so that no webhook is sent.
    run.move(*Run.LIVE, to=Run.Status.FINISHED, where=run.hold, **ended)
    run.refresh_from_db()


@dataclass
class _Task:
    """A task whose latencies approach `floor_s` as the search learns, and spread like those of real candidates."""

    info: TaskInfo
    floor_s: float
    worst: float
    """How many times slower the first candidates are."""
    failing: float
    """Share of its trials that fail."""
    best_s: float = math.inf
    done: int = 0

    def trial(self, random: Random, at_s: float) -> TrialMeasured:
        self.done += 1
        if random.random() < self.failing:
            kind, text = random.choice(ERRORS)
            return TrialMeasured(self.info.index, None, at_s, kind, text)
        learnt = 1.0 + self.worst * math.exp(-self.done / SETTLED)
        latency_s = self.floor_s * learnt * math.exp(abs(random.gauss(0.0, 0.5)))
        short = latency_s > 1.5 * self.best_s
        self.best_s = min(self.best_s, latency_s)
        return TrialMeasured(self.info.index, latency_s, at_s, short=short)


@dataclass
class _Tuning:
    random: Random
    tasks: list[_Task] = field(default_factory=list)

    @classmethod
    def of(cls, tasks: int, seed: int) -> _Tuning:
        """Equal for equal arguments."""
        tuning = cls(Random(seed))  # noqa: S311 - nothing secret
        tuning.tasks += [_task(tuning.random, index) for index in range(tasks)]
        return tuning

    def announced(self) -> TasksExtracted:
        """The event that announces the tasks."""
        return TasksExtracted(TARGET, [task.info for task in self.tasks])

    def trials(self, count: int) -> Iterator[TrialMeasured]:
        """Every task once, then the more important ones more often."""
        random, at_s = self.random, 5.0
        gains = [task.info.weight * task.floor_s for task in self.tasks]
        for number in range(0, count, SEARCHED):
            turn = number // SEARCHED
            task = self.tasks[turn] if turn < len(self.tasks) else random.choices(self.tasks, gains)[0]
            at_s += random.uniform(0.5, 2.0)
            for _ in range(min(SEARCHED, count - number)):
                at_s += random.uniform(0.02, 0.2)
                yield task.trial(random, at_s)


def _task(random: Random, index: int) -> _Task:
    flop = 10 ** random.uniform(6.5, 9.5)
    kernel = KERNELS[index % len(KERNELS)]
    name = kernel if index < len(KERNELS) else f"{kernel}{index // len(KERNELS)}"
    size = max(1, round(flop**0.5 / 64))
    info = TaskInfo(
        index=index,
        name=name,
        weight=random.choice((1, 1, 1, 2, 2, 3, 4)),
        flop=flop,
        workload_hash=f"{NAME}-{index}",
        args=[TensorInfo("x", [1, size], "float32"), TensorInfo("y", [1, 64], "float32")],
        tensorir="# Made up: there is no function.",
    )
    return _Task(
        info,
        floor_s=flop / (random.uniform(20, 200) * 1e9),
        worst=random.uniform(2, 20),
        failing=random.uniform(0.01, 0.25),
    )
