"""Runs: their status, their turn on the device, and where their files are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from .device import deciding
from .lifecycle import LEASE, Leased, LeasedQuerySet
from .network import Network, fingerprint
from .project import Project, seen_by
from .sentences import EARLY, words
from .shapes import Alert, RunDict, RunFacts, WrittenDict, iso, username

KEPT = Q(deleted_at__isnull=True)
CURRENT = KEPT & Q(archived=False)


class TunedTask(Protocol):
    """What a run needs to know of its tasks to raise alerts."""

    trials: int
    chosen: bool

    def alert(self, *, everyone_had_a_turn: bool) -> Alert | None:
        """What users should know of the task now, if anything."""


class RunQuerySet(LeasedQuerySet["Run"]):
    def seen_by(self, user: User | None) -> RunQuerySet:
        """Runs of the user's projects; all of them for None, the site itself."""
        return self.filter(seen_by(user))

    def occupying(self) -> RunQuerySet:
        """Runs that keep their device busy: they are being tuned, or a live job measures a library of theirs."""
        alive = Q(compilations__heartbeat_at__gte=timezone.now() - LEASE)
        measured = Q(compilations__stage="prove", compilations__status__in=("running", "cancelling"))
        return self.filter(Q(status__in=Run.LIVE) | (measured & alive))

    def device_is_free(self, device: str) -> bool:
        """Whether nothing is being measured on the device. Call it within `deciding` in order to claim it."""
        return not self.occupying().filter(device=device).exists()

    def forgotten(self) -> RunQuerySet:
        """Without those that have to wait for their device."""
        busy = Run.objects.occupying().values("device")
        return super().forgotten().exclude(device__in=busy).order_by("queued_at", "pk")

    def others_of_network(self, run: Run) -> RunQuerySet:
        """Other runs of the same network, whatever its options, newest first, without archived ones."""
        return self.filter(network__name=run.network.name, archived=False).exclude(pk=run.pk).order_by("-pk")

    def ahead_of(self, run: Run) -> RunQuerySet:
        """The runs before a queued one on its device: the live run, and those queued earlier."""
        earlier = Q(queued_at__lt=run.queued_at) | Q(queued_at=run.queued_at, pk__lt=run.pk)
        return (
            self.exclude(pk=run.pk)
            .filter(device=run.device)
            .filter(Q(status__in=Run.LIVE) | (Q(status=Run.Status.QUEUED) & earlier))
        )

    def places(self) -> dict[int, int]:
        """By the key of each queued run, how many runs come before it on its device."""
        busy = self.filter(status__in=(Run.Status.QUEUED, *Run.LIVE))
        rows = busy.values_list("pk", "device", "status", "queued_at")
        ahead: Counter[str] = Counter()
        found = {}
        for pk, device, status, _ in sorted(rows, key=lambda row: (row[2] == Run.Status.QUEUED, row[3], row[0])):
            if status == Run.Status.QUEUED:
                found[pk] = ahead[device]
            ahead[device] += 1
        return found

    def listed(self) -> RunQuerySet:
        """With what a list shows, and without columns that are long or slow to decode."""
        tags = models.Prefetch("tags", to_attr="listed_tags")
        found = self.select_related("network", "project", "created_by").prefetch_related(tags)
        return found.defer("notes", "network__dims", "network__inputs", "network__operators")

    def restorable(self) -> RunQuerySet:
        """Deleted runs of which nothing has been removed yet. Only `Run.everything` has deleted runs."""
        return self.filter(deleted_at__isnull=False, purging=False)

    def outdated(self) -> RunQuerySet:
        """Deleted runs whose time to be restored is over."""
        return self.restorable().filter(deleted_at__lte=timezone.now() - timedelta(days=settings.KEEP_DELETED_DAYS))


_Runs = models.Manager.from_queryset(RunQuerySet)


class KeptRuns(_Runs["Run"]):
    """Runs that aren't deleted."""

    def get_queryset(self) -> RunQuerySet:
        return RunQuerySet(self.model, using=self._db).filter(deleted_at__isnull=True)


class Run(Leased):
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
    ENDED: ClassVar[tuple[str, ...]] = (Status.FINISHED, *RESUMABLE)
    READ_ON_RENEWAL: ClassVar[tuple[str, ...]] = ("status", "trials_budget", "time_limit_s")

    name = models.CharField(max_length=200)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.QUEUED)
    engine = models.CharField(max_length=30, default="meta_schedule")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs")
    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="runs")
    target = models.JSONField()
    """As the user gave it until the engine has resolved it, then the target's dict."""
    target_fingerprint = models.CharField(max_length=64)
    """Digest of the target: not every database can compare JSON."""
    device = models.CharField(max_length=60)
    """The device that the run occupies while it measures."""
    options = models.JSONField(default=dict)
    versions = models.JSONField(default=dict)
    trials_budget = models.PositiveIntegerField()
    time_limit_s = models.FloatField(null=True)
    """Seconds of tuning after which the run ends. Like the budget, it can be extended."""
    trials_done = models.PositiveIntegerField(default=0)
    trials_failed = models.PositiveIntegerField(default=0)
    tasks_total = models.PositiveIntegerField(default=0)
    tasks_chosen = models.PositiveIntegerField(default=0)
    """How many of the tasks are tuned; the estimate covers these."""
    tasks_measured = models.PositiveIntegerField(default=0)
    estimated_latency_s = models.FloatField(null=True)
    warm_start = models.JSONField(null=True)
    """Indices of the tasks whose search began with records of earlier runs, and the ids of those runs."""
    phase = models.CharField(max_length=20, null=True)
    phase_task = models.PositiveIntegerField(null=True)
    elapsed_s = models.FloatField(default=0.0)
    """Seconds of tuning by all processes of the run."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="runs")
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    finish_reason = models.CharField(max_length=20, null=True)
    """Why the engine ended by itself: a `FinishReason`."""
    error = models.TextField(null=True)
    synthetic = models.BooleanField(default=False)
    estimates = models.JSONField(default=list)
    """The curve of the estimate in a few points, each a trial's number and seconds; see `tuning.work.estimating.grown`."""
    pinned = models.BooleanField(default=False, db_default=False)
    """Listed first."""
    archived = models.BooleanField(default=False, db_default=False)
    """Not listed unless asked for; otherwise a run like any other."""
    deleted_at = models.DateTimeField(null=True)
    """A deleted run is neither shown nor used, and can be restored until it is purged."""
    purging = models.BooleanField(default=False, db_default=False)
    """Its removal has begun, so it can't be restored anymore."""
    notes = models.TextField(default="", db_default="")
    """In Markdown."""
    revision = models.PositiveIntegerField(default=1, db_default=1)
    """Counts the edits of name and notes. An edit names the revision that it is based on."""
    edited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    edited_at = models.DateTimeField(null=True)

    objects = KeptRuns()
    everything = RunQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        permissions = (("stop_run", "Can stop run"),)
        constraints = (
            # Two runs at once would disturb each other's measurements, so the database itself refuses.
            models.UniqueConstraint(
                fields=("device",), condition=Q(status__in=("running", "stopping")), name="one_live_run_a_device"
            ),
            models.CheckConstraint(condition=Q(trials_done__lte=F("trials_budget")), name="trials_within_budget"),
            models.CheckConstraint(condition=Q(pinned=False) | Q(archived=False), name="run_pinned_or_archived"),
        )
        indexes = (
            models.Index(fields=("status", "device", "queued_at")),
            # One for each order of the list, whose queries repeat the conditions.
            *(
                models.Index(fields=(column, "id"), condition=CURRENT, name=f"run_by_{column}")
                for column in ("created_at", "name", "status", "trials_done", "trials_failed")
            ),
            models.Index(fields=("estimated_latency_s", "id"), condition=CURRENT, name="run_by_estimate"),
            models.Index(fields=("target_fingerprint", "id"), condition=KEPT, name="run_by_target"),
            models.Index(fields=("created_at", "id"), condition=KEPT & Q(pinned=True), name="run_pinned"),
            models.Index(fields=("created_at", "id"), condition=KEPT & Q(archived=True), name="run_archived"),
            models.Index(fields=("deleted_at",), condition=Q(deleted_at__isnull=False), name="run_deleted"),
        )

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep the fingerprint in line with the target."""
        self.target_fingerprint = fingerprint(self.target)
        super().save(*args, **kwargs)

    @property
    def is_live(self) -> bool:
        return self.status in self.LIVE

    @property
    def can_stop(self) -> bool:
        return self.status in (self.Status.QUEUED, self.Status.RUNNING)

    @property
    def can_resume(self) -> bool:
        return self.status in self.RESUMABLE and self.trials_done < self.trials_budget and not self.synthetic

    @property
    def can_extend(self) -> bool:
        return self.status != self.Status.STOPPING and not self.synthetic

    @property
    def place(self) -> int | None:
        """How many runs come before it on its device; None unless it is queued. For many runs, use `RunQuerySet.places`."""
        return Run.objects.ahead_of(self).count() if self.status == self.Status.QUEUED else None

    @property
    def can_delete(self) -> bool:
        """A library that is being made of the run may still prevent it."""
        return self.status in self.ENDED

    @property
    def average_speed(self) -> float | None:
        """Trials per second over the whole run, including loading and search; None before the first trial."""
        return self.trials_done / self.elapsed_s if self.trials_done and self.elapsed_s else None

    @property
    def work_dir(self) -> Path:
        """The engine's files and the console log.

        The name has the time of creation because a new database starts again with id 1, perhaps next to old files.
        """
        return Path(settings.VAR) / "runs" / f"{self.pk}-{self.created_at:%Y%m%dT%H%M%S.%f}"

    @property
    def console_log(self) -> Path:
        """Output of the engine, TVM and compilers."""
        return self.work_dir / "console.log"

    def revise(self, revision: int, **values: Any) -> bool:
        """Save an edit of name or notes unless somebody saved one since that revision; return whether it was saved.

        Either way this instance has the current name and notes afterwards.
        """
        revised = Run.objects.filter(pk=self.pk, revision=revision).update(
            **values, revision=revision + 1, edited_at=timezone.now()
        )
        self.refresh_from_db(fields=("name", "notes", "revision", "edited_by", "edited_at"))
        return revised == 1

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        with deciding(self.device):
            yield Run.objects.device_is_free(self.device)

    def _on_claim(self) -> dict[str, Any]:
        started_at = self.started_at or timezone.now()
        fresh = {"finished_at": None, "finish_reason": None, "phase": "loading", "phase_task": None}
        return {**super()._on_claim(), "started_at": started_at, **fresh}

    def _on_end(self) -> dict[str, Any]:
        return {**super()._on_end(), "phase": None, "phase_task": None}

    def _on_requeue(self) -> dict[str, Any]:
        return {**super()._on_requeue(), "queued_at": timezone.now(), "finish_reason": None}

    def _on_abandoned(self) -> dict[str, Any]:
        error = "The worker stopped responding. Resume the run to continue where it stopped."
        return {"to": self.Status.INTERRUPTED, "finished_at": self.heartbeat_at, "error": error}

    def alerts(self, tasks: Iterable[TunedTask]) -> list[Alert]:
        """What users should know of the run's tasks now."""
        tasks = list(tasks)
        everyone_had_a_turn = all(task.trials for task in tasks if task.chosen)
        return [alert for task in tasks if (alert := task.alert(everyone_had_a_turn=everyone_had_a_turn))]

    @property
    def early(self) -> str:
        """Why it ended before its budget was spent, in a few words; empty if it didn't."""
        return EARLY.get(self.finish_reason or "", "") if self.status == self.Status.FINISHED else ""

    def to_dict(self, *, tasks: Iterable[TunedTask], places: Mapping[int, int] | None = None) -> RunDict:
        """The run without its tasks, which are needed for the alerts. `places`, if given, saves a query for its place."""
        facts: RunFacts = {
            "id": self.pk,
            "name": self.name,
            "project": self.project.name,
            "revision": self.revision,
            "status": self.status,
            "engine": self.engine,
            "network": self.network.name,
            "network_options": self.network.options,
            "target": self.target,
            "device": self.device,
            "options": self.options,
            "versions": self.versions,
            "trials_budget": self.trials_budget,
            "time_limit_s": self.time_limit_s,
            "trials_done": self.trials_done,
            "trials_failed": self.trials_failed,
            "tasks_total": self.tasks_total,
            "tasks_chosen": self.tasks_chosen,
            "tasks_measured": self.tasks_measured,
            "estimated_latency_s": self.estimated_latency_s,
            "warm_start": self.warm_start,
            "phase": self.phase,
            "phase_task": self.phase_task,
            "place": self.place if places is None else places.get(self.pk),
            "elapsed_s": self.elapsed_s,
            "created_by": username(self.created_by),
            "created_at": self.created_at.isoformat(),
            "started_at": iso(self.started_at),
            "finished_at": iso(self.finished_at),
            "finish_reason": self.finish_reason,
            "error": self.error,
            "alerts": self.alerts(tasks),
            "synthetic": self.synthetic,
        }
        return cast("RunDict", {**facts, "words": words(facts)})

    def to_listed_dict(self, *, tasks: Iterable[TunedTask], places: Mapping[int, int] | None = None) -> RunDict:
        """With what users organize runs by, which a supervisor doesn't know: it read the run when it began."""
        return {
            **self.to_dict(tasks=tasks, places=places),
            "tags": self.tag_names,
            "pinned": self.pinned,
            "archived": self.archived,
            "deleted_at": iso(self.deleted_at),
        }

    @property
    def tag_names(self) -> list[str]:
        """In alphabetical order. For a run from `listed`, as of when it was read."""
        tags = getattr(self, "listed_tags", None)
        return [tag.name for tag in (self.tags.all() if tags is None else tags)]

    def to_full_dict(self) -> RunDict:
        """With its tasks and notes."""
        tasks = list(self.tasks.defer("tensorir").order_by("index"))
        shown = self.to_listed_dict(tasks=tasks)
        shown["tasks"] = [task.to_dict() for task in tasks]
        return {**shown, **self.written()}

    def written(self) -> WrittenDict:
        """Name and notes, and who edited them last."""
        return {
            "name": self.name,
            "notes": self.notes,
            "revision": self.revision,
            "edited_by": username(self.edited_by),
            "edited_at": iso(self.edited_at),
        }
