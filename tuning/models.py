"""Runs, their tasks, trials and best records, and the shapes in which API and socket show them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.utils import timezone
from typing_extensions import NotRequired, TypedDict

ALARMING_FAILURES = 16
"""A task whose first trials failed this often gets an alert."""
LEASE = timedelta(seconds=30)
"""A supervisor that hasn't renewed its lease for this long is taken for dead."""
TELL_AGAIN = timedelta(seconds=30)
"""A queued run on an idle device is announced to the workers again after this long."""


class Alert(TypedDict):
    """Something about a run that its user should know now."""

    kind: str
    task: int | None
    message: str


class TaskDict(TypedDict):
    """A task; latencies in seconds, `flop` of one execution."""

    index: int
    name: str
    weight: int
    flop: float
    args: list[dict[str, Any]]
    trials: int
    failed: int
    best_latency_s: float | None
    best_trial: int | None
    gflops: float | None


class RunDict(TypedDict):
    """A run; latencies and `elapsed_s` in seconds, times in ISO 8601 with zone."""

    id: int
    name: str
    status: str
    engine: str
    network: str
    network_options: dict[str, Any]
    target: Any
    device: str
    options: dict[str, Any]
    versions: dict[str, str]
    trials_budget: int
    trials_done: int
    trials_failed: int
    tasks_total: int
    tasks_measured: int
    estimated_latency_s: float | None
    phase: str | None
    phase_task: int | None
    place: int | None
    elapsed_s: float
    created_by: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    error: str | None
    alerts: list[Alert]
    synthetic: bool
    tasks: NotRequired[list[TaskDict]]


class TrialColumns(TypedDict):
    """Trials as columns of equal length, by number; `last` is the last number of the run that they reach.

    `error` is the kind of error, `nth` counts the trials of the same task, `improved` says that the trial was its
    task's best when it was measured.
    """

    number: list[int]
    task: list[int]
    latency_s: list[float | None]
    error: list[str | None]
    at_s: list[float]
    nth: list[int]
    improved: list[bool]
    last: int


class RunDelta(TypedDict):
    """What a commit changed: trials `after` < number ≤ `last`, the run without its tasks, and the tasks that changed.

    After a mere change of status or phase `after` equals `last` and the columns are empty.
    """

    type: Literal["delta"]
    after: int
    last: int
    trials: TrialColumns
    run: RunDict
    tasks: list[TaskDict]


class ErrorDict(TypedDict):
    """A distinct error text of a run; `tasks` are the indices of the tasks that met it."""

    kind: str
    text: str
    count: int
    first_trial: int
    last_trial: int
    tasks: list[int]


class Network(models.Model):
    """What is tuned: a built-in network's name with its options."""

    name = models.CharField(max_length=100)
    options = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=64, unique=True)
    """Digest of name and options, since JSON can't be unique on every database."""

    def __str__(self) -> str:
        return self.name


class RunQuerySet(models.QuerySet["Run"]):
    """Reads of runs."""

    def live(self) -> RunQuerySet:
        """Runs whose supervisor should be alive."""
        return self.filter(status__in=Run.LIVE)

    def abandoned(self) -> RunQuerySet:
        """Live runs whose supervisor has not renewed its lease in time."""
        return self.live().filter(heartbeat_at__lt=timezone.now() - LEASE)

    def forgotten(self) -> RunQuerySet:
        """Queued runs that no worker was told of lately, on devices that do nothing."""
        busy = Run.objects.live().values("device")
        told_long_ago = Q(enqueued_at__isnull=True) | Q(enqueued_at__lt=timezone.now() - TELL_AGAIN)
        return self.filter(told_long_ago, status=Run.Status.QUEUED).exclude(device__in=busy).order_by("queued_at", "pk")

    def ahead_of(self, run: Run) -> RunQuerySet:
        """What the device does before a queued run: the run it is at, and those queued earlier."""
        earlier = Q(queued_at__lt=run.queued_at) | Q(queued_at=run.queued_at, pk__lt=run.pk)
        return (
            self.exclude(pk=run.pk)
            .filter(device=run.device)
            .filter(Q(status__in=Run.LIVE) | (Q(status=Run.Status.QUEUED) & earlier))
        )


class Run(models.Model):
    """One tuning of one network for one target."""

    class Status(models.TextChoices):
        """`queued → running → (stopping →) finished | stopped | failed | interrupted`."""

        QUEUED = "queued"
        RUNNING = "running"
        STOPPING = "stopping"
        FINISHED = "finished"
        STOPPED = "stopped"
        FAILED = "failed"
        INTERRUPTED = "interrupted"

    LIVE: ClassVar[tuple[str, ...]] = (Status.RUNNING, Status.STOPPING)
    RESUMABLE: ClassVar[tuple[str, ...]] = (Status.STOPPED, Status.FAILED, Status.INTERRUPTED)

    name = models.CharField(max_length=200)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.QUEUED)
    engine = models.CharField(max_length=30, default="meta_schedule")
    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="runs")
    target = models.JSONField()
    """As asked until the engine has resolved it, then the target's dict."""
    device = models.CharField(max_length=60)
    """What the run occupies while it measures: one run at a time on each."""
    options = models.JSONField(default=dict)
    versions = models.JSONField(default=dict)
    trials_budget = models.PositiveIntegerField()
    trials_done = models.PositiveIntegerField(default=0)
    trials_failed = models.PositiveIntegerField(default=0)
    tasks_total = models.PositiveIntegerField(default=0)
    tasks_measured = models.PositiveIntegerField(default=0)
    estimated_latency_s = models.FloatField(null=True)
    phase = models.CharField(max_length=20, null=True)
    phase_task = models.PositiveIntegerField(null=True)
    elapsed_s = models.FloatField(default=0.0)
    """Seconds of tuning by all processes of the run."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="runs")
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField()
    enqueued_at = models.DateTimeField(null=True)
    """When a worker was last told of it. The broker may forget; the sweep tells again."""
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    lease = models.CharField(max_length=32, null=True)
    """Names the supervisor that may write measurements; a new one is drawn at each claim."""
    heartbeat_at = models.DateTimeField(null=True)
    error = models.TextField(null=True)
    synthetic = models.BooleanField(default=False)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            # Two runs at once would disturb each other's measurements: the database itself refuses.
            models.UniqueConstraint(
                fields=("device",), condition=Q(status__in=("running", "stopping")), name="one_live_run_a_device"
            ),
            models.CheckConstraint(condition=Q(trials_done__lte=F("trials_budget")), name="trials_within_budget"),
        )
        indexes = (models.Index(fields=("status", "device", "queued_at")), models.Index(fields=("-created_at", "-id")))

    def __str__(self) -> str:
        return self.name

    @property
    def is_live(self) -> bool:
        """Whether a supervisor should be at work on it."""
        return self.status in self.LIVE

    @property
    def can_stop(self) -> bool:
        """Whether Stop would do something."""
        return self.status in (self.Status.QUEUED, self.Status.RUNNING)

    @property
    def can_resume(self) -> bool:
        """Whether Resume would do something."""
        return self.status in self.RESUMABLE and self.trials_done < self.trials_budget

    @property
    def place(self) -> int | None:
        """How many runs the device does first; None when it isn't queued."""
        return Run.objects.ahead_of(self).count() if self.status == self.Status.QUEUED else None

    @property
    def work_dir(self) -> Path:
        """Where the engine keeps its own files, and the run its console log.

        With the time of creation, since a new database beside old files begins with run 1 again.
        """
        return Path(settings.VAR) / "runs" / f"{self.pk}-{self.created_at:%Y%m%dT%H%M%S.%f}"

    @property
    def console_log(self) -> Path:
        """What the engine, TVM and compilers printed."""
        return self.work_dir / "console.log"

    def move(self, *sources: str, to: str, lease: str | None = None, **values: Any) -> bool:
        """Change the status if it is one of `sources` still, under this lease if one is given; says whether it did.

        Refreshes this instance if so.
        """
        candidates = Run.objects.filter(pk=self.pk, status__in=sources)
        if lease is not None:
            candidates = candidates.filter(lease=lease)
        moved = candidates.update(status=to, **values) == 1
        if moved:
            self.refresh_from_db(fields=("status", *values))
        return moved

    def claim(self) -> bool:
        """Take the queued run and its device; False when the run isn't queued any more or the device is taken."""
        now = timezone.now()
        queued = Run.objects.filter(pk=self.pk, status=self.Status.QUEUED)
        try:
            with transaction.atomic():
                claimed = queued.update(
                    status=self.Status.RUNNING,
                    lease=uuid.uuid4().hex,
                    heartbeat_at=now,
                    started_at=self.started_at or now,
                    finished_at=None,
                    error=None,
                    phase="loading",
                    phase_task=None,
                )
        except IntegrityError:  # one_live_run_a_device
            return False
        self.refresh_from_db()
        return claimed == 1

    def renew(self, lease: str, elapsed_s: float) -> str | None:
        """Renew the lease; gives the status, or None when the run is this supervisor's no longer."""
        mine = Run.objects.live().filter(pk=self.pk, lease=lease)
        if not mine.update(heartbeat_at=timezone.now(), elapsed_s=elapsed_s):
            return None
        return mine.values_list("status", flat=True).first()

    def alerts(self, tasks: Iterable[Task]) -> list[Alert]:
        """What its user should know now, of the run's tasks."""
        tasks = list(tasks)
        everyone_had_a_turn = all(task.trials for task in tasks)
        return [alert for task in tasks if (alert := task.alert(everyone_had_a_turn=everyone_had_a_turn))]

    def to_dict(self, *, tasks: Iterable[Task]) -> RunDict:
        """The run as API and socket show it, without its tasks. `tasks` give the alerts."""
        return {
            "id": self.pk,
            "name": self.name,
            "status": self.status,
            "engine": self.engine,
            "network": self.network.name,
            "network_options": self.network.options,
            "target": self.target,
            "device": self.device,
            "options": self.options,
            "versions": self.versions,
            "trials_budget": self.trials_budget,
            "trials_done": self.trials_done,
            "trials_failed": self.trials_failed,
            "tasks_total": self.tasks_total,
            "tasks_measured": self.tasks_measured,
            "estimated_latency_s": self.estimated_latency_s,
            "phase": self.phase,
            "phase_task": self.phase_task,
            "place": self.place,
            "elapsed_s": self.elapsed_s,
            "created_by": self.created_by.get_username() if self.created_by else None,
            "created_at": self.created_at.isoformat(),
            "started_at": _iso(self.started_at),
            "finished_at": _iso(self.finished_at),
            "error": self.error,
            "alerts": self.alerts(tasks),
            "synthetic": self.synthetic,
        }

    def to_full_dict(self) -> RunDict:
        """The run with its tasks."""
        tasks = list(self.tasks.order_by("index"))
        shown = self.to_dict(tasks=tasks)
        shown["tasks"] = [task.to_dict() for task in tasks]
        return shown


class Task(models.Model):
    """One fused subgraph of a run's network, with its counters."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tasks")
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=500)
    weight = models.PositiveIntegerField()
    flop = models.FloatField()
    workload_hash = models.CharField(max_length=64)
    args = models.JSONField(default=list)
    tensorir = models.TextField(default="")
    trials = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    best_latency_s = models.FloatField(null=True)
    best_trial = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ("index",)
        constraints = (models.UniqueConstraint(fields=("run", "index"), name="task_index_once_a_run"),)
        indexes = (models.Index(fields=("workload_hash",)),)

    def __str__(self) -> str:
        return self.name

    @property
    def gflops(self) -> float | None:
        """Speed of the best trial in 10⁹ floating-point operations a second; None when unknown or without any."""
        return self.flop / self.best_latency_s / 1e9 if self.best_latency_s and self.flop else None

    def alert(self, *, everyone_had_a_turn: bool) -> Alert | None:
        """Why this task needs a look, if it does.

        TVM's gradient scheduler doesn't pick a task without a valid measurement again while a measured one lives, so
        once every task had a turn such a task starves.
        """
        if self.trials == 0 or self.trials > self.failed:
            return None
        if self.trials >= ALARMING_FAILURES:
            return {
                "kind": "all_failed",
                "task": self.index,
                "message": f"Task {self.index} {self.name}: all of its {self.trials} trials failed.",
            }
        if everyone_had_a_turn:
            return {
                "kind": "starved",
                "task": self.index,
                "message": f"Task {self.index} {self.name} has no valid trial, and the task scheduler may not pick it again.",
            }
        return None

    def to_dict(self) -> TaskDict:
        """The task as API and socket show it."""
        return {
            "index": self.index,
            "name": self.name,
            "weight": self.weight,
            "flop": self.flop,
            "args": self.args,
            "trials": self.trials,
            "failed": self.failed,
            "best_latency_s": self.best_latency_s,
            "best_trial": self.best_trial,
            "gflops": self.gflops,
        }


class TrialError(models.Model):
    """An error text of a run, stored once however many trials met it."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="errors")
    kind = models.CharField(max_length=20)
    digest = models.CharField(max_length=64)
    """Of kind and text, less what differs from trial to trial (addresses, temporary paths)."""
    text = models.TextField()
    count = models.PositiveIntegerField(default=0)
    first_trial = models.PositiveIntegerField()
    last_trial = models.PositiveIntegerField()
    tasks = models.JSONField(default=list)

    class Meta:
        ordering = ("-count", "first_trial")
        constraints = (models.UniqueConstraint(fields=("run", "digest"), name="error_text_once_a_run"),)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text[:60]}"

    def to_dict(self) -> ErrorDict:
        """The error as the API shows it."""
        return {
            "kind": self.kind,
            "text": self.text,
            "count": self.count,
            "first_trial": self.first_trial,
            "last_trial": self.last_trial,
            "tasks": self.tasks,
        }


class TrialQuerySet(models.QuerySet["Trial"]):
    """Reads of trials. None of them reads all trials of a run."""

    def after(self, number: int, limit: int) -> TrialQuerySet:
        """The next `limit` trials of a run by number."""
        return self.filter(number__gt=number).order_by("number")[:limit]

    def improvements(self) -> TrialQuerySet:
        """The trials that were their task's best when measured: exact best-so-far curves from few rows."""
        return self.filter(improved=True).order_by("number")

    def thinned(self, level: int) -> TrialQuerySet:
        """Every 2^level-th trial: an index range whose cost doesn't depend on the run's size."""
        return self.filter(lod__gte=level).order_by("number")


class Trial(models.Model):
    """One candidate schedule, built and measured once. Numbers only: its trace is in the run's record file."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="trials")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="trial_set")
    number = models.PositiveIntegerField()
    nth = models.PositiveIntegerField()
    """Counts the trials of its task, from 1."""
    latency_s = models.FloatField(null=True)
    error = models.ForeignKey(TrialError, on_delete=models.RESTRICT, null=True, related_name="trials")
    error_kind = models.CharField(max_length=20, null=True)
    at_s = models.FloatField()
    lod = models.PositiveSmallIntegerField()
    """Number of trailing zero bits of `number`."""
    improved = models.BooleanField()

    objects = TrialQuerySet.as_manager()

    class Meta:
        ordering = ("number",)
        constraints = (
            models.UniqueConstraint(fields=("run", "number"), name="trial_number_once_a_run"),
            models.CheckConstraint(
                condition=Q(latency_s__isnull=True, error_kind__isnull=False)
                | Q(latency_s__isnull=False, error_kind__isnull=True),
                name="trial_has_latency_or_error",
            ),
        )
        indexes = (
            models.Index(fields=("run", "lod", "number")),
            models.Index(fields=("run", "number"), condition=Q(improved=True), name="trial_improvements"),
            models.Index(fields=("task", "number")),
        )

    def __str__(self) -> str:
        return f"trial {self.number}"


class Record(models.Model):
    """The engine's serial form of one of a task's best trials."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="records")
    trial = models.PositiveIntegerField()
    """The trial's number in its run."""
    latency_s = models.FloatField()
    text = models.TextField()

    class Meta:
        ordering = ("latency_s", "trial")
        constraints = (models.UniqueConstraint(fields=("task", "trial"), name="record_once_a_trial"),)

    def __str__(self) -> str:
        return f"record of trial {self.trial}"


def trial_columns(trials: Iterable[Trial], index_of: Mapping[int, int], after: int) -> TrialColumns:
    """The trials as columns; `index_of` gives the task's index by its key, `after` is `last` when there are none."""
    columns: TrialColumns = {
        "number": [],
        "task": [],
        "latency_s": [],
        "error": [],
        "at_s": [],
        "nth": [],
        "improved": [],
        "last": after,
    }
    for trial in trials:
        columns["number"].append(trial.number)
        columns["task"].append(index_of[trial.task_id])
        columns["latency_s"].append(trial.latency_s)
        columns["error"].append(trial.error_kind)
        columns["at_s"].append(trial.at_s)
        columns["nth"].append(trial.nth)
        columns["improved"].append(trial.improved)
        columns["last"] = max(columns["last"], trial.number)
    return columns


def level_of_detail(number: int) -> int:
    """Number of trailing zero bits of a trial's number (from 1)."""
    return (number & -number).bit_length() - 1


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
