"""Records what others measured: their trials become a run's, and their records the lines of its record files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from django.db import transaction

from tuning.engines.wire.protocol import ErrorKind, TrialMeasured
from tuning.logs import neutral
from tuning.logs.meta_schedule import LOST, WORKLOADS
from tuning.models import BadLine, Run, RunDelta, Stream, Watch, storable
from tuning.storage import store
from tuning.work.recorder import Recorder
from tuning.work.told import TasksTold

UNRECORDED = "# trial {number}: no record\n"
"""Keeps the place of a trial whose record didn't come. All readers skip comments."""


class Measured(NamedTuple):
    """A trial as somebody else's tuner tells of it."""

    task: int
    """Index."""
    latency_s: float | None
    error_kind: str | None
    error: str | None
    at_s: float | None
    record: str | None
    """The native line; of MetaSchedule the record without the number of its workload."""


def record(
    kept: Stream | Watch,
    trials: Sequence[Measured],
    told: TasksTold | None = None,
    workloads: Mapping[int, str] | None = None,
) -> RunDelta:
    """Add tasks and trials to the claimed run, and their records to its files, in one transaction with `kept`.

    `workloads` has the lines of MetaSchedule's workload file for new tasks, by index. Raises `LeaseLost`.
    """
    with transaction.atomic():
        recorder = Recorder(kept.tuned)
        texts = _Files(kept, recorder.run).add(trials, workloads or {})
        events = [_event(trial, text) for trial, text in zip(trials, texts, strict=True)]
        delta = recorder.record([told, *events] if told else events)
        kept.save()
    return delta


def note_bad(run: Run, bad: Sequence[neutral.BadLine]) -> None:
    """Count lines of the claimed run that can't be used, and list the first ones with their reasons."""
    if not bad:
        return
    room = max(0, BadLine.KEPT - run.bad_lines)
    BadLine.objects.bulk_create(
        BadLine(run=run, file=line.file, line=line.line, reason=storable(line.reason)) for line in bad[:room]
    )
    run.bad_lines += len(bad)
    run.held().update(bad_lines=run.bad_lines)


def _event(trial: Measured, text: str | None) -> TrialMeasured:
    kind = cast("ErrorKind | None", trial.error_kind)
    return TrialMeasured(trial.task, trial.latency_s, trial.at_s, kind, trial.error, text)


class _Files:
    """The run's record files. They are written before the database knows, and what it doesn't know is overwritten."""

    def __init__(self, kept: Stream | Watch, run: Run) -> None:
        self.kept, self.run = kept, run
        self.folder = run.work_dir

    def add(self, trials: Sequence[Measured], workloads: Mapping[int, str]) -> list[str | None]:
        """Write a line a trial; return the text of each record as the database has it."""
        if self.run.is_meta_schedule:
            return self._add_pair(trials, workloads)
        numbered = enumerate(trials, start=self.run.trials_done + 1)
        lines = [f"{trial.record}\n" if trial.record else UNRECORDED.format(number=n) for n, trial in numbered]
        self.kept.record_bytes = _append(self.run.record_file, self.kept.record_bytes, lines)
        return [trial.record for trial in trials]

    def _add_pair(self, trials: Sequence[Measured], workloads: Mapping[int, str]) -> list[str | None]:
        kept = self.kept
        kept.workloads = [*kept.workloads, *workloads]
        lines = [f"{line}\n" for line in workloads.values()]
        kept.workload_bytes = _append(self.folder / WORKLOADS, kept.workload_bytes, lines)
        known = self._workloads() if any(trial.record for trial in trials) else []
        place = {index: place for place, index in enumerate(kept.workloads)}
        pairs = [(place.get(trial.task), trial.record) for trial in trials]
        whole = [f"[{at},{text}]\n" if text and at is not None else f"{LOST}\n" for at, text in pairs]
        kept.record_bytes = _append(self.run.record_file, kept.record_bytes, whole)
        return [f"[{known[at]},{text}]" if text and at is not None else None for at, text in pairs]

    def _workloads(self) -> list[str]:
        with store().opened(self.folder / WORKLOADS) as file:
            return file.read().decode().splitlines()


def _append(path: Path, place: int, lines: Sequence[str]) -> int:
    """Write the lines at this byte; return where they end."""
    if not lines:
        return place
    data = "".join(lines).encode()
    store().append(path, place, data)
    return place + len(data)
