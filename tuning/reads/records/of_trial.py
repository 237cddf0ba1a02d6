"""The record of one trial: slow and failed ones have theirs in the run's record file only."""

from __future__ import annotations

from dataclasses import dataclass

from tuning.logs import meta_schedule
from tuning.models import MAX_NUMBER, Record, Run, Task, Trial
from tuning.reads.downloads.records import NOTHING, has_workloads

from .lines import line


class Missing(Exception):
    """There is no record of the trial; the message says why."""


class NotOfTask(Missing):
    """The task has no such trial."""


@dataclass(frozen=True)
class TrialRecord:
    """A trial's record as the engine wrote it, MetaSchedule's with its workload. A failed trial has `error_kind` and no latency."""

    task: Task
    trial: int
    text: str
    latency_s: float | None
    error_kind: str | None = None

    @property
    def gflops(self) -> float | None:
        """Its speed in 10⁹ floating-point operations per second; None if it failed, or has no such operations."""
        return None if self.latency_s is None else self.task.gflops_at(self.latency_s)


def of_trial(task: Task, number: int) -> TrialRecord:
    """The record of a trial of this task, by the trial's number in the run. Raises `Missing`."""
    kept = Record.objects.filter(task=task, trial=min(number, MAX_NUMBER)).first()
    if kept is not None:
        return TrialRecord(task, kept.trial, kept.text, kept.latency_s)
    trial = _trial(task, number)
    return TrialRecord(task, number, _written(task.run, number), trial.latency_s, trial.error_kind)


def _trial(task: Task, number: int) -> Trial:
    trial = task.run.trials.filter(number=min(number, MAX_NUMBER)).select_related("task").first()
    if trial is None:
        raise NotOfTask(f"The run has no trial {number:,}.")
    if trial.task_id != task.pk:
        raise NotOfTask(f"Trial {number:,} isn’t of this task but of task {trial.task.index}, {trial.task.name}.")
    return trial


def _written(run: Run, number: int) -> str:
    if run.synthetic:
        raise Missing("The run is synthetic: its trials have no records.")
    try:
        found = line(run.record_file, number)
        if found is None:
            raise Missing(f"The run’s record file ends before the record of trial {number:,}.")
        if found[:1] in NOTHING or found == meta_schedule.LOST.encode():
            raise Missing(f"The record of trial {number:,} was lost.")
        return (_with_workload(run, found) if run.is_meta_schedule else found).decode()
    except FileNotFoundError:
        raise Missing(
            "The run’s record file isn’t here anymore: only the best records of each task are left."
        ) from None
    except (OSError, ValueError) as error:
        raise Missing(f"The run’s record file can’t be read: {error}.") from error


def _with_workload(run: Run, record: bytes) -> bytes:
    """`[workload, record]` of a line that has the workload's number. Raises `OSError` and `ValueError`."""
    if not has_workloads(run):
        raise Missing(
            "The log came without its file of workloads, so the record doesn’t tell which function it schedules."
        )
    number, _, own = record.removeprefix(b"[").partition(b",")
    workload = line(run.work_dir / meta_schedule.WORKLOADS, int(number) + 1)
    if workload is None:
        raise ValueError(f"the file of workloads has no line {int(number) + 1:,}")
    return b"[%b,%b" % (workload, own.strip())
