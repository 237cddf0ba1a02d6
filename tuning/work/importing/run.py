"""A run made of the records that one log has for one target."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from tuning.engines.wire.protocol import TrialMeasured
from tuning.logs import neutral
from tuning.logs.opening import Log
from tuning.models import KEEP_BEST, Import, Network, Run
from tuning.storage import Written, store
from tuning.work.failures import nothing_valid
from tuning.work.recorder import Recorder
from tuning.work.told import TasksTold, ToldTask, shown_name
from tuning.work.told.clock import Clock, moment
from tuning.work.told.errors import error_text


@dataclass(frozen=True)
class About:
    """What is known of a run before its trials are read."""

    source: Import
    log: Log
    name: str
    network: Network | None
    digest: str
    tasks: Sequence[neutral.Task]
    """Of one target."""
    weights: Mapping[str, int]
    """By name or hash of the task, as the user says them."""

    @property
    def target(self) -> dict[str, Any] | None:
        return self.tasks[0].target

    def told(self) -> list[ToldTask]:
        """The tasks, numbered in order of appearance."""
        return [ToldTask(index, task, self._weight(task)) for index, task in enumerate(self.tasks)]

    def _weight(self, task: neutral.Task) -> int | None:
        return next((self.weights[name] for name in called(task) if name in self.weights), None)


@dataclass
class ImportedRun:
    """The run while its trials are read. It has no heartbeat but the import's, whose job ends or removes it."""

    about: About
    run: Run
    recorder: Recorder
    file: Written
    indices: dict[str, int]
    clock: Clock
    number: int = 0
    best: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Of each task the negated latencies of its best trials so far, as a heap."""
    pending: list[TrialMeasured] = field(default_factory=list)

    @classmethod
    def begin(cls, about: About) -> ImportedRun:
        """Make the run with its tasks."""
        run = _claimed(about)
        recorder = Recorder(run)
        recorder.record([TasksTold(about.target, about.told())])
        indices = {task.key: index for index, task in enumerate(about.tasks)}
        return cls(about, run, recorder, store().written(run.record_file), indices, Clock(about.log.sessions))

    def take(self, trial: neutral.Trial) -> None:
        """Keep the record and, for `flush`, the trial."""
        self.number += 1
        self.file.write(trial.record + b"\n")
        at_s = self.clock.tell(trial, self.number, self.about.log.tvm_version)
        self.pending.append(self._measured(trial, at_s))

    def flush(self) -> None:
        """Write the trials that were taken."""
        if self.pending:
            with transaction.atomic():
                self.recorder.record(self.pending)
                self.file.flush()
            self.pending = []

    def end(self) -> bool:
        """End the run with what was learned of its times; False if it was taken away."""
        run, clock = self.recorder.run, self.clock
        none_valid = run.trials_done == run.trials_failed
        return self.run.move(
            *Run.LIVE,  # Moved rather than ended, so that no webhook is sent: it didn't end now.
            to=Run.Status.FAILED if none_valid else Run.Status.FINISHED,
            where=self.run.hold,
            error=nothing_valid(run) if none_valid else None,
            started_at=_time(clock.first),
            finished_at=_time(clock.last),
            elapsed_s=clock.elapsed_s,
            sessions=clock.sessions,
            phase=None,
            phase_task=None,
        )

    def _measured(self, trial: neutral.Trial, at_s: float | None) -> TrialMeasured:
        task = self.indices[trial.task]
        if trial.latency_s is None:
            kind, text = trial.error_kind or "unknown", error_text(self.about.log.engine, trial)
            return TrialMeasured(task, None, at_s, kind, text)  # type: ignore[arg-type]
        return TrialMeasured(task, trial.latency_s, at_s, record=self._kept(task, trial.latency_s, trial))

    def _kept(self, task: int, latency_s: float, trial: neutral.Trial) -> str | None:
        """The record, if it is among the task's best."""
        best = self.best[task]
        if len(best) >= KEEP_BEST and -best[0] <= latency_s:
            return None
        heapq.heappush(best, -latency_s)
        if len(best) > KEEP_BEST:
            heapq.heappop(best)
        return self_contained(self.about.tasks[task], trial.record)


def called(task: neutral.Task) -> tuple[str, ...]:
    """What users may call the task. MetaSchedule's files have the hash as a decimal number."""
    shash = task.workload_hash
    return shown_name(task), shash, *([str(int(shash, 16))] if shash.startswith("0x") else [])


def self_contained(task: neutral.Task, record: bytes) -> str:
    """The record with its workload, as MetaSchedule's engine sends it; other engines' records have it anyway."""
    line = record.decode().strip()
    if task.engine != "meta_schedule" or not isinstance(task.workload, str):
        return line
    return f"[{task.workload.strip()},{line.removeprefix('[').partition(',')[2].strip()}"


def _claimed(about: About) -> Run:
    log = about.log
    with transaction.atomic():  # So that nobody sees it queued.
        run = Run.objects.create(
            project=about.source.project,
            name=about.name,
            origin=Run.Origin.IMPORTED,
            imported_by=about.source,
            engine=log.engine,
            network=about.network,
            target=about.target or {},
            versions={"apache-tvm": log.tvm_version} if log.tvm_version else {},
            trials_budget=None,
            elapsed_s=None,
            bad_lines=log.bad,
            records_digest=about.digest,
            created_by=about.source.created_by,
            queued_at=Now(),
        )
        assert run.claim()
    return run


def _time(timestamp: float | None) -> datetime | None:
    return None if timestamp is None else moment(timestamp)
