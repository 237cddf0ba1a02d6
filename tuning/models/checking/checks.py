"""Regression checks: what is measured again and again, and when."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models.functions import Now
from typing_extensions import TypedDict

from tuning.models.compilation import Compilation
from tuning.models.fleet import Machine, Needs
from tuning.models.network import Network
from tuning.models.project import Project, seen_by
from tuning.models.run import Run, measures_on
from tuning.models.shapes import iso, username

from .due import WEEKDAYS, Schedule, next_due

LEAST_PATIENCE = timedelta(days=1)
KEY_BYTES = 24
"""Of a badge's address."""
MOST_RUNS = 50
"""Alike runs that are looked at."""


def drawn_key() -> str:
    """A part of an address that nobody can guess."""
    return secrets.token_urlsafe(KEY_BYTES)


def database_now() -> datetime:
    """The database's time, by which checks are due: machines' clocks may differ by hours."""
    return Project.objects.annotate(now=Now()).values_list("now", flat=True)[0]


class CheckDict(TypedDict):
    """A check. `at` is a time of day in `time_zone`; `next_at` is null while it is paused. `base` is the result that is pinned."""

    id: int
    name: str
    project: str
    network: str
    network_options: dict[str, Any]
    engine: str
    target: dict[str, Any]
    device: str
    machine: str | None
    like: int | None
    """The run that it was made from, if that still exists."""
    how: str
    trials: int | None
    time_limit_s: float | None
    options: dict[str, Any]
    every: str
    at: str
    weekday: str
    time_zone: str
    next_at: str | None
    paused: bool
    base: int | None
    state: str
    """`new`, `good`, `regression` or `failed`."""
    latest: CheckResultDict | None
    """The latest result that wasn't skipped."""
    badge: str
    """The path of its badge, which is a secret."""
    created_by: str | None
    created_at: str


class CheckResultDict(TypedDict):
    """What a check found. Latencies in seconds; `change` and `noise` are relative to the base, 0.08 is 8 % slower.

    `verdict` is null while it goes on; then `stage` says at what it is.
    """

    id: int
    check: int
    due_at: str | None
    """When it was due; null if somebody asked for it."""
    begun_at: str
    ended_at: str | None
    asked_by: str | None
    stage: str
    verdict: str | None
    error: str | None
    run: int | None
    compilation: int | None
    benchmark: int | None
    machine: str | None
    versions: dict[str, str]
    latency_s: float | None
    spread: float | None
    """How far its rounds lie apart: about 95 % of them are within this share of their median."""
    rounds: int
    base_s: float | None
    change: float | None
    noise: float | None


class CheckQuerySet(models.QuerySet["RegressionCheck"]):
    def seen_by(self, user: User | None) -> CheckQuerySet:
        return self.filter(seen_by(user))

    def shown(self) -> CheckQuerySet:
        """With what `to_dict` reads, by name."""
        return self.select_related("network", "project", "machine", "created_by", "latest__asked_by").order_by(
            "name", "pk"
        )

    def scheduled(self) -> CheckQuerySet:
        """Those that aren't paused."""
        return self.filter(next_at__isnull=False)


class RegressionCheck(models.Model):
    """Measures a network for a target again and again, and judges whether it got slower."""

    class How(models.TextChoices):
        """What it does each time, before its benchmark."""

        COMPILE = "compile"
        """Builds a library with the best records known."""
        BENCHMARK = "benchmark"
        """Nothing: it measures the newest library."""
        TUNE = "tune"
        """Tunes, and then builds a library with the best records known."""

    class State(models.TextChoices):
        """What its latest result says, for those who are told of changes only."""

        NEW = "new"
        GOOD = "good"
        REGRESSION = "regression"
        FAILED = "failed"

    name = models.CharField(max_length=100)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="regression_checks")
    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="regression_checks")
    engine = models.CharField(max_length=30)
    interpreter = models.CharField(max_length=20, default="")
    target = models.JSONField()
    target_fingerprint = models.CharField(max_length=64)
    device = models.CharField(max_length=60)
    """The one that libraries are measured on."""
    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, null=True, related_name="+")
    """The only one whose runs are compiled and that tunes; null for any that fits."""
    needs = models.ForeignKey(Needs, on_delete=models.PROTECT, null=True, related_name="+")
    machines_wanted = models.PositiveSmallIntegerField(default=1)
    like = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, related_name="+")
    """The run that it was made from. If it is gone, the newest run that is alike stands in for it."""
    how = models.CharField(max_length=10, choices=How.choices)
    trials = models.PositiveIntegerField(null=True)
    """The budget of each tuning; null unless it tunes."""
    time_limit_s = models.FloatField(null=True)
    options = models.JSONField(default=dict)
    """Of each tuning, apart from the seed, which is drawn anew."""
    every = models.CharField(max_length=10)
    at = models.TimeField()
    """In the site's time zone."""
    weekday = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True)
    """When it is due; null while it is paused."""
    last_due_at = models.DateTimeField(null=True)
    """The time of its schedule for which it was done last."""
    base = models.ForeignKey("CheckResult", on_delete=models.SET_NULL, null=True, related_name="+")
    """The result that all later ones are compared with; null for the median of the latest good ones."""
    state = models.CharField(max_length=10, choices=State.choices, default=State.NEW)
    latest = models.ForeignKey("CheckResult", on_delete=models.SET_NULL, null=True, related_name="+")
    """The latest result that has ended and wasn't skipped."""
    badge_key = models.CharField(max_length=40, unique=True, default=drawn_key)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = CheckQuerySet.as_manager()

    class Meta:
        ordering = ("name", "pk")
        constraints = (models.UniqueConstraint(fields=("project", "name"), name="one_check_of_a_name_a_project"),)
        indexes = (models.Index(fields=("next_at",), name="checks_due"),)

    def __str__(self) -> str:
        return self.name

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.every, self.at, self.weekday)

    @property
    def is_paused(self) -> bool:
        return self.next_at is None

    @property
    def badge_path(self) -> str:
        return f"/badges/{self.badge_key}.svg"

    def due_after(self, now: datetime) -> datetime:
        """When it is due after `now`, by its schedule."""
        return next_due(self.schedule, settings.SCHEDULE_ZONE, now, self.last_due_at)

    def is_current(self, now: datetime) -> bool:
        """Whether what it found last says anything of today: it isn't paused, and that is no older than twice its period and an hour."""
        ended = self.latest.ended_at if self.latest else None
        oldest = now - 2 * self.schedule.period - timedelta(hours=1)
        return not self.is_paused and ended is not None and ended >= oldest

    @property
    def patience(self) -> timedelta:
        """How long a result may go on before those that are due meanwhile are failures: what it waits for may never come."""
        return max(LEAST_PATIENCE, 1.5 * self.schedule.period)

    def reschedule(self, at: datetime, **values: Any) -> bool:
        """Move the time at which it is due, unless somebody has since this instance was read; return whether it was moved."""
        same = RegressionCheck.objects.filter(pk=self.pk, next_at=self.next_at)
        return same.update(next_at=at, **values) == 1

    @property
    def machine_trouble(self) -> str:
        """Why nothing can be tuned on its machine; empty if it can, now or once the machine is back."""
        if self.machine is None or self.machine.forgotten_at is None:
            return ""
        return f"The machine {self.machine}, the only one that it tunes on, is no longer one of the site's."

    def runs(self) -> list[Run]:
        """The runs of which it may compile a library: that which it was made from, if it is kept, then alike ones, newest first."""
        alike = Run.objects.annotate(on=measures_on()).filter(
            on=self.device,
            project=self.project_id,
            network=self.network_id,
            engine=self.engine,
            target_fingerprint=self.target_fingerprint,
            synthetic=False,
        )
        if self.machine_id is not None:
            alike = alike.filter(machine=self.machine_id)
        found = list(alike.select_related("network").order_by("-pk")[:MOST_RUNS])
        own = [] if self.like_id is None else list(alike.select_related("network").filter(pk=self.like_id))
        return [*own, *(run for run in found if run.pk != self.like_id)]

    def newest_library(self) -> Compilation | None:
        """The newest library of any of its runs, which may be waiting to be measured for somebody else."""
        built = Compilation.objects.kept().filter(sha256__isnull=False)
        return built.filter(run__in=self.runs()).select_related("run").order_by("-created_at", "-pk").first()

    def to_dict(self) -> CheckDict:
        return {
            "id": self.pk,
            "name": self.name,
            "project": self.project.name,
            "network": self.network.name,
            "network_options": self.network.options,
            "engine": self.engine,
            "target": self.target,
            "device": self.device,
            "machine": self.machine.name if self.machine else None,
            "like": self.like_id,
            "how": self.how,
            "trials": self.trials,
            "time_limit_s": self.time_limit_s,
            "options": self.options,
            "every": self.every,
            "at": f"{self.at:%H:%M}",
            "weekday": WEEKDAYS[self.weekday],
            "time_zone": settings.SCHEDULE_ZONE.key,
            "next_at": iso(self.next_at),
            "paused": self.is_paused,
            "base": self.base_id,
            "state": self.state,
            "latest": self.latest.to_dict() if self.latest else None,
            "badge": self.badge_path,
            "created_by": username(self.created_by),
            "created_at": self.created_at.isoformat(),
        }
