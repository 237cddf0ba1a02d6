"""The only writer of measurements: each batch of an engine's events becomes one transaction and one delta."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

from django.db import DataError, transaction
from django.db.models.functions import Now

from tuning.engines.wire.protocol import (
    Adapted,
    AnyTaskInfo,
    Confirmed,
    Event,
    Hello,
    Phase,
    Plateaued,
    Preferred,
    ReferenceMeasured,
    RooflineMeasured,
    TasksExtracted,
    TrialMeasured,
    WarmStarted,
)
from tuning.models import (
    KEEP_BEST,
    BegunDict,
    Machine,
    Record,
    ReferenceMeasurement,
    Run,
    RunDelta,
    Tally,
    Task,
    Trial,
    TrialColumns,
    TrialError,
    TrialRow,
    confirmed_latency,
    estimated_latency,
    fingerprint,
    level_of_detail,
    trial_columns,
)
from tuning.models.fleet import is_shared
from tuning.noise import drift, noise

from .copies import RecordCopy
from .course import rooflines
from .course.rounds import RoundRows
from .estimating import grown
from .told import TasksTold

logger = logging.getLogger(__name__)
RUN_FIELDS = (
    "trials_done",
    "trials_failed",
    "trials_noisy",
    "disturbed",
    "tasks_total",
    "tasks_spare",
    "tasks_chosen",
    "tasks_measured",
    "tasks_confirmed",
    "cold_bytes",
    "warm_start",
    "begun",
    "adapted",
    "estimated_latency_s",
    "confirmed_latency_s",
    "estimates",
    "noise",
    "drift",
    "reference_trial",
    "elapsed_s",
    "phase",
    "phase_task",
    "target",
    "target_fingerprint",
    "versions",
)
TASK_FIELDS = (
    "trials",
    "failed",
    "best_latency_s",
    "best_trial",
    "confirmed_latency_s",
    "confirmed_trial",
    "confirmed_times",
    "confirmed_noise",
    "plateaued",
    "weight",
    "cold_bytes",
)


class LeaseLost(Exception):
    """Another supervisor has the run, or it was interrupted. Nothing was written."""


class EngineMisbehaved(Exception):
    """The engine broke the protocol. Nothing of the batch was written."""


class Recorder:
    """Records the events of one claimed run.

    Between batches, counters are kept on the model instances. After a failed transaction they are read again, so that the batch
    can be retried and nothing is counted twice.
    """

    def __init__(self, run: Run, copy: RecordCopy | None = None) -> None:
        """`copy` stores the lines of the run's record files together with the trials."""
        self._pk = run.pk
        self._lease = run.lease
        self._copy = copy
        self._stale = False
        self.disturbed: frozenset[str] = frozenset()
        """Names of machines that others use too much at the moment; whoever records keeps it up to date."""
        self._load()

    def record(self, events: Sequence[Event | TasksTold]) -> RunDelta:
        """Write the events in one transaction.

        Raises `LeaseLost`, `EngineMisbehaved`, or a database error; in that case nothing was written.
        """
        if self._stale:
            self._load()
            if self._copy:
                self._copy.undone()
        self._stale = True
        try:
            delta = self._write(events)
        except (DataError, OverflowError, ValueError) as error:
            raise EngineMisbehaved(f"the engine sent what the database can't hold ({error})") from error
        if self._copy:
            self._copy.committed()
        self.saved = self._values()
        self._stale = False
        return delta

    def _write(self, events: Sequence[Event | TasksTold]) -> RunDelta:
        with transaction.atomic():
            delta = _Batch(self).write(events)
            if self._copy and delta["last"] > delta["after"] and not self._copy.add(delta["last"]):
                logger.error("The record file of run %s has fewer lines than trials.", self._pk)
        return delta

    def _load(self) -> None:
        self.run = Run.objects.select_related("network", "project", "created_by", "machine", "chosen_machine").get(
            pk=self._pk
        )
        if self.run.lease != self._lease:
            raise LeaseLost(f"run {self._pk} has another supervisor")
        self.tasks = {task.index: task for task in self.run.tasks.all()}
        self.errors = {error.digest: error for error in self.run.errors.all()}
        self.kept: dict[int, list[Record]] = {index: [] for index in self.tasks}
        for record in Record.objects.filter(task__run=self._pk).select_related("task"):
            self.kept[record.task.index].append(record)
        self.begun: dict[int, BegunDict] = {one["task"]: one for one in self.run.begun}
        self.reference = list(self.run.reference_measurements.values_list("latency_s", flat=True))
        """Latencies of the run's reference, oldest first."""
        self.machine_of = self.run.measurers().names()
        """Names of the machines that measured trials of the run, by key."""
        self.key_of: dict[str, int | None] = {name: key for key, name in self.machine_of.items()}
        self.saved = self._values()
        self._stale = False

    def changes(self) -> dict[str, Any]:
        """The columns that differ from the run's row. Most batches change a few, and encoding all of them would take longest."""
        return {name: value for name, value in self._values().items() if value != self.saved[name]}

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self.run, name) for name in RUN_FIELDS}


class _Batch:
    """One transaction's worth of events."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.run = recorder.run
        self.after = recorder.run.trials_done
        self.trials: list[TrialRow] = []
        self.met: dict[int, TrialError] = {}
        """By the index of a failed trial in the batch, since the error's key isn't known before it is saved."""
        self.tasks: dict[int, Task] = {}
        self.errors: dict[str, TrialError] = {}
        self.dropped: list[Record] = []
        self.added: list[Record] = []
        self.rounds = RoundRows(self.run, self._known)
        self.estimates: list[tuple[int, float]] = []
        """Trials that changed the estimate, each with the new estimate."""
        self.references: list[ReferenceMeasurement] = []
        self.roofline: RooflineMeasured | None = None

    def write(self, events: Sequence[Event | TasksTold]) -> RunDelta:
        for event in events:
            self._take(event)
        self._save()
        return {
            "type": "delta",
            "after": self.after,
            "last": self.run.trials_done,
            "trials": self._columns(),
            "run": self.run.to_dict(tasks=self.recorder.tasks.values()),
            "tasks": [task.to_dict() for task in self.tasks.values()],
        }

    def _columns(self) -> TrialColumns:
        index_of = {task.pk: index for index, task in self.tasks.items()}
        return trial_columns(self.trials, index_of, self.recorder.machine_of, self.after)

    def _take(self, event: Event | TasksTold) -> None:
        if isinstance(event, TrialMeasured):
            self._take_trial(event)
        elif isinstance(event, TasksExtracted):
            self._take_tasks(event)
        elif isinstance(event, TasksTold):
            self._take_told(event)
        elif isinstance(event, Preferred):
            self._take_preferred(event)
        else:
            self._take_other(event)

    def _take_other(self, event: Event) -> None:
        if isinstance(event, Phase):
            self.run.phase, self.run.phase_task = event.name, event.task
        elif isinstance(event, Confirmed):
            self._take_confirmed(event)
        elif isinstance(event, ReferenceMeasured):
            self._take_reference(event)
        elif isinstance(event, RooflineMeasured):
            self._take_roofline(event)
        elif isinstance(event, Plateaued):
            self._task(event.task).plateaued = True
        elif isinstance(event, (WarmStarted, Adapted)):
            self._take_head_start(event)
        elif isinstance(event, Hello):
            self.run.versions = event.versions
        self.rounds.take(event)

    def _task(self, index: int) -> Task:
        """The task, which will be saved with the batch."""
        task = self.tasks[index] = self._known(index)
        return task

    def _known(self, index: int) -> Task:
        task = self.recorder.tasks.get(index)
        if task is None:
            raise EngineMisbehaved(f"the engine sent an event about task {index}, which it never announced")
        return task

    def _take_tasks(self, event: TasksExtracted) -> None:
        self.run.target, self.run.target_fingerprint = event.target, fingerprint(event.target)
        if event.cold_bytes is not None:
            self.run.cold_bytes = event.cold_bytes
        known = self.recorder.tasks
        if known:
            _refuse_other_tasks(known, event.tasks)
            for info in event.tasks:
                if info.cold_bytes != known[info.index].cold_bytes:  # An earlier version may have begun the run.
                    self._task(info.index).cold_bytes = info.cold_bytes
            for task in known.values():
                if task.plateaued:  # Whoever continues a run wants to improve every task again.
                    self._task(task.index).plateaued = False
            return
        self._add(_task(self.run, info) for info in event.tasks)

    def _take_told(self, event: TasksTold) -> None:
        """Logs name a task with its first trial, so more tasks may come."""
        if event.target is not None:
            self.run.target, self.run.target_fingerprint = event.target, fingerprint(event.target)
        known = self.recorder.tasks
        self._add(Task(run=self.run, **told.columns()) for told in event.tasks if told.index not in known)

    def _add(self, tasks: Iterable[Task]) -> None:
        known = self.recorder.tasks
        for task in Task.objects.bulk_create(tasks):
            known[task.index] = self.tasks[task.index] = task
            self.recorder.kept[task.index] = []
        counting = [task for task in known.values() if not task.is_spare]
        self.run.tasks_total, self.run.tasks_spare = len(counting), len(known) - len(counting)
        self.run.tasks_chosen = sum(task.chosen for task in counting)

    def _take_trial(self, event: TrialMeasured) -> None:
        task = self._task(event.task)
        if self.run.trials_left == 0:
            raise EngineMisbehaved(f"the engine measured more than the budget of {self.run.trials_budget} trials")
        if (event.latency_s is None) == (event.error_kind is None):
            raise EngineMisbehaved("the engine sent a trial with both a latency and an error, or neither")
        self.run.trials_done += 1
        if event.at_s is not None:
            self.run.elapsed_s = max(self.run.elapsed_s or 0.0, event.at_s)
        task.trials += 1
        self._compare_with_known(event)
        trial = self._row(event, task)
        self.trials.append(trial)
        self.run.trials_noisy += trial.noisy
        if trial.improved and (estimate_s := estimated_latency(self.recorder.tasks.values())) is not None:
            self.estimates.append((trial.number, estimate_s))
        if event.latency_s is None:
            self._count_failure(task, trial.number, event)
        elif event.record is not None and not event.short:
            self._keep(task, trial.number, event.latency_s, event.record)

    def _take_head_start(self, event: WarmStarted | Adapted) -> None:
        if isinstance(event, Adapted):
            known = self.run.adapted or {"tasks": [], "runs": []}  # Another process of the run may have told more.
            adapted = {"tasks": event.tasks, "runs": event.runs}
            self.run.adapted = {of: sorted({*keys, *known[of]}) for of, keys in adapted.items()}
            return
        self.run.warm_start = {"tasks": event.tasks, "runs": event.runs}
        alike = Run.everything.filter(pk__in={one.run for one in event.begun}).measured_like(self.run)
        noises = dict(alike.values_list("pk", "noise"))
        for one in event.begun:
            if one.run not in noises:  # What is slower with cold weights isn't slower here.
                continue
            told = {"task": one.task, "run": one.run, "latency_s": one.latency_s, "noise": noises[one.run]}
            self._set_begun(cast("BegunDict", {**told, "tried": False, "measured_s": None}))

    def _compare_with_known(self, event: TrialMeasured) -> None:
        """The first trial of a task that begins with a known record is that record. On many machines another one may end first."""
        one = self.recorder.begun.get(event.task)
        if one is not None and not one["tried"] and not self.run.has_pool:
            self._set_begun({**one, "tried": True, "measured_s": event.latency_s})

    def _set_begun(self, one: BegunDict) -> None:
        begun = self.recorder.begun = {**self.recorder.begun, one["task"]: one}
        self.run.begun = [begun[task] for task in sorted(begun)]

    def _take_confirmed(self, event: Confirmed) -> None:
        task = self._task(event.task)
        if strange := set(event.trials) - {record.trial for record in self.recorder.kept[event.task]}:
            raise EngineMisbehaved(f"the engine confirmed trial {min(strange)}, which isn't among the best of its task")
        if self.run.machine_name in self.recorder.disturbed and self._is_trusted(task):
            return
        task.confirm(dict(zip(event.trials, event.latencies_s, strict=True)))

    def _is_trusted(self, task: Task) -> bool:
        """Whether it is confirmed, or its best trial isn't noisy: what a busy machine says of it now is worth less."""
        if task.confirmed_latency_s is not None:
            return True
        for trial in self.trials:
            if trial.number == task.best_trial:
                return not trial.noisy
        return not self.run.trials.filter(number=task.best_trial or 0, noisy=True).exists()

    def _take_preferred(self, event: Preferred) -> None:
        """Only one of both tasks is a part of the estimate, which the change may have changed."""
        task, other = self._task(event.task), self._task(event.instead_of)
        if task.weight is None or other.weight is None or (task.weight and other.weight):
            raise EngineMisbehaved(
                f"the engine preferred task {event.task} to {event.instead_of}, which isn't its rival"
            )
        task.weight, other.weight = task.weight + other.weight, 0
        if (estimate_s := estimated_latency(self.recorder.tasks.values())) is not None:
            self.estimates.append((self.run.trials_done, estimate_s))

    def _take_reference(self, event: ReferenceMeasured) -> None:
        run, known = self.run, self.recorder.reference
        if run.reference_trial not in (None, event.trial) or not 0 < event.trial <= run.trials_done:
            raise EngineMisbehaved(f"the engine measured trial {event.trial} as its reference")
        known.append(event.latency_s)
        run.reference_trial, run.noise, run.drift = event.trial, noise(known), drift(known)
        self.references.append(
            ReferenceMeasurement(run=run, after=run.trials_done, at_s=event.at_s, latency_s=event.latency_s)
        )

    def _take_roofline(self, event: RooflineMeasured) -> None:
        if not self.recorder.tasks or not self.run.measures_here:
            raise EngineMisbehaved("the engine measured a roofline that it wasn't asked for")
        self.roofline = event

    def _row(self, event: TrialMeasured, task: Task) -> TrialRow:
        """Of a trial that was just counted; if it improves on the task's best, it is that now."""
        machine = self._measurer(event)
        return TrialRow(
            run_id=self.run.pk,
            task_id=task.pk,
            number=self.run.trials_done,
            nth=task.trials,
            latency_s=event.latency_s,
            error_id=None,
            error_kind=event.error_kind,
            short=event.short,
            at_s=event.at_s,
            lod=level_of_detail(self.run.trials_done),
            improved=not event.short and self._improves(task, event.latency_s),
            noisy=machine in self.recorder.disturbed and event.latency_s is not None,
            machine_id=self._key_of(machine),
        )

    def _measurer(self, event: TrialMeasured) -> str:
        """The name of the machine that measured the trial; empty if nobody knows.

        A recovered one was measured before this machine took the run, somebody else's elsewhere, and a shared device is at no machine.
        """
        if event.recovered or not self.run.is_ours or is_shared(self.run.device):
            return ""
        return event.machine or self.run.machine_name

    def _key_of(self, machine: str) -> int | None:
        """The key of the machine that has measured, which thereby becomes one of the run's."""
        known = self.recorder
        if machine and machine not in known.key_of and (found := Machine.everything.filter(name=machine).first()):
            self.run.measured_by.add(found)
            known.key_of[machine], known.machine_of[found.pk] = found.pk, machine
        return known.key_of.get(machine)

    def _improves(self, task: Task, latency_s: float | None) -> bool:
        if latency_s is None or (task.best_latency_s is not None and latency_s >= task.best_latency_s):
            return False
        task.best_latency_s = latency_s
        task.best_trial = self.run.trials_done
        task.unconfirm()
        return True

    def _count_failure(self, task: Task, number: int, event: TrialMeasured) -> None:
        task.failed += 1
        self.run.trials_failed += 1
        kind, text = event.error_kind or "run", event.error or "not recorded"
        digest = error_digest(kind, text)
        error = self.recorder.errors.get(digest)
        if error is None:
            error = TrialError(run=self.run, kind=kind, digest=digest, text=text, first_trial=number)
            self.recorder.errors[digest] = error
        error.count += 1
        error.last_trial = number
        if task.index not in error.tasks:
            error.tasks = sorted([*error.tasks, task.index])
        self.met[len(self.trials) - 1] = self.errors[digest] = error

    def _keep(self, task: Task, number: int, latency_s: float, text: str) -> None:
        kept = self.recorder.kept[task.index]
        record = Record(task=task, trial=number, latency_s=latency_s, text=text)
        kept.append(record)
        kept.sort(key=lambda one: (one.latency_s, one.trial))
        self.added.append(record)
        self.dropped += kept[KEEP_BEST:]
        del kept[KEEP_BEST:]

    def _save(self) -> None:
        self._save_run()
        for task in self.tasks.values():  # Rarely more than one, for which bulk_update takes three times as long.
            task.save(update_fields=TASK_FIELDS)
        for error in self.errors.values():
            error.save()
        for place, error in self.met.items():
            self.trials[place] = self.trials[place]._replace(error_id=error.pk)
        Trial.objects.insert(self.trials)
        self.rounds.save()
        if self.roofline:
            rooflines.keep(self.run, self.roofline)
        self._count()
        ReferenceMeasurement.objects.bulk_create(self.references)
        gone = set(map(id, self.dropped))
        Record.objects.bulk_create(record for record in self.added if id(record) not in gone)
        if stored := [record.pk for record in self.dropped if record.pk]:
            Record.objects.filter(pk__in=stored).delete()

    def _count(self) -> None:
        """Count the trials for the metrics, for the machine that measured them, or else for the one that tunes.

        Of a synthetic run nothing was measured, of somebody else's nothing here.
        """
        if not self.trials or not self.run.can_tune:
            return
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for trial in self.trials:
            counted = counts[self.recorder.machine_of.get(trial.machine_id, self.run.machine_name)]
            counted[Tally.What.TRIALS] += 1
            if trial.error_kind:
                counted[Tally.failed_as(trial.error_kind)] += 1
        Tally.objects.add_each(self.run.device, counts)

    def _save_run(self) -> None:
        run = self.run
        tasks = self.recorder.tasks.values()
        counting = [task for task in tasks if not task.is_spare]
        run.tasks_measured = sum(task.best_latency_s is not None for task in counting)
        run.tasks_confirmed = sum(task.chosen and task.confirmed_latency_s is not None for task in counting)
        run.estimated_latency_s = estimated_latency(tasks)
        run.confirmed_latency_s = confirmed_latency(tasks)
        if self.estimates:
            run.estimates = grown(run.estimates, self.estimates)
        mine = run.held()
        values = {"heartbeat_at": Now(), **self.recorder.changes()}
        # Users rarely edit a run while it is tuned. If they did, the delta shows it.
        if mine.filter(status=run.status, revision=run.revision).update(**values):
            return
        if not mine.update(**values):
            raise LeaseLost(f"run {run.pk} was taken away")
        run.status, run.name, run.revision = mine.values_list("status", "name", "revision").get()


@lru_cache(maxsize=64)
def error_digest(kind: str, text: str) -> str:
    """Equal for texts that differ only in addresses, temporary paths, process ids and times."""
    alike = re.sub(r"0x[0-9a-fA-F]+|/tmp/\S+|\d+", "#", text)
    return hashlib.sha256(f"{kind}\n{alike}".encode()).hexdigest()


def _task(run: Run, info: AnyTaskInfo) -> Task:
    own = {"space": info.space, "cold_bytes": info.cold_bytes, "computes": info.computes or ""}
    return Task(run=run, chosen=info.chosen, **own, **Task.described(info))


def _refuse_other_tasks(known: dict[int, Task], infos: Sequence[AnyTaskInfo]) -> None:
    """A resumed run must have the same tasks as before, or its trials would be attributed to other functions.

    Weights may have moved from one task to another that computes the same.
    """
    before = {index: (task.workload_hash, task.chosen) for index, task in known.items()}
    weights = sum(task.weight or 0 for task in known.values()), sum(info.weight or 0 for info in infos)
    if before != {info.index: (info.workload_hash, info.chosen) for info in infos} or len(set(weights)) > 1:
        raise EngineMisbehaved("the network's tasks aren't the ones that this run began with")
