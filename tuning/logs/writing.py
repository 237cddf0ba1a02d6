"""Trials back into the files of their engine, as TVM reads them: all of them, the best, or those of several logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappush, heapreplace
from typing import BinaryIO, Protocol

from .neutral import BadLine, EngineName, Task, Trial


class CannotWrite(ValueError):
    """These records don't go into one file; the message says why."""


class Readable(Protocol):
    """What is needed of `opening.Log`."""

    name: str
    engine: EngineName
    tasks: dict[str, Task]

    def batches(self) -> Iterator[list[Trial | BadLine]]: ...


class Writer:
    """Writes records as they were read, byte for byte.

    MetaSchedule's name a line of the workload file. Workloads are numbered anew, in order of appearance, so those numbers may change.
    Without a stream for workloads, the records alone are written, which only makes sense for records of one log.
    """

    def __init__(self, engine: EngineName, records: BinaryIO, workloads: BinaryIO | None = None) -> None:
        self._engine = engine
        self._records = records
        self._workloads = workloads
        self._numbers: dict[str, int] = {}

    def write(self, trial: Trial, task: Task) -> None:
        """Raises `CannotWrite`."""
        if task.engine != self._engine:
            raise CannotWrite(f"{trial.file}, line {trial.line} is a record of {task.engine}, not of {self._engine}")
        line = trial.record if self._workloads is None else self._renumbered(trial, task)
        self._records.write(line + b"\n")

    def _renumbered(self, trial: Trial, task: Task) -> bytes:
        _, comma, record = trial.record.partition(b",")
        return b"[%d" % self._number(trial, task) + comma + record

    def _number(self, trial: Trial, task: Task) -> int:
        number = self._numbers.get(task.workload_hash)
        if number is None:
            if not isinstance(task.workload, str):
                raise CannotWrite(
                    f"the workload of {trial.file}, line {trial.line} isn't known: its workload file is missing"
                )
            number = self._numbers[task.workload_hash] = len(self._numbers)
            assert self._workloads
            self._workloads.write(task.workload.encode() + b"\n")
        return number


def write(
    trials: Iterable[tuple[Trial, Task]], engine: EngineName, records: BinaryIO, workloads: BinaryIO | None = None
) -> int:
    """Write all of them; returns how many. Raises `CannotWrite`."""
    writer = Writer(engine, records, workloads)
    count = 0
    for trial, task in trials:
        writer.write(trial, task)
        count += 1
    return count


def merge(logs: Iterable[Readable]) -> Iterator[tuple[Trial, Task]]:
    """All trials of logs of one engine, log by log. Raises `CannotWrite` if engines differ, before anything is returned."""
    logs = list(logs)
    engines = sorted({log.engine for log in logs})
    if len(engines) > 1:
        raise CannotWrite(f"logs of {' and '.join(engines)} can't be merged: no tuner reads both")
    return (
        (each, log.tasks[each.task])
        for log in logs
        for batch in log.batches()
        for each in batch
        if isinstance(each, Trial)
    )


def distill(trials: Iterable[Trial], best: int = 1) -> list[Trial]:
    """The fastest valid trials of each task: tasks in order of appearance, the fastest first. Of equals the earlier one.

    Only `best` trials a task are ever kept.
    """
    kept: dict[str, list[tuple[float, int, Trial]]] = {}
    for place, trial in enumerate(trials):
        if trial.latency_s is None:
            continue
        # The slowest comes first in a heap, hence the minus signs.
        entry, heap = (-trial.latency_s, -place, trial), kept.setdefault(trial.task, [])
        if len(heap) < best:
            heappush(heap, entry)
        elif entry > heap[0]:
            heapreplace(heap, entry)
    return [trial for heap in kept.values() for *_, trial in sorted(heap, reverse=True)]
