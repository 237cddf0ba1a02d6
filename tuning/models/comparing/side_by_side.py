"""What several runs' best records take when they are measured in turn, in one job on one device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from typing_extensions import TypedDict

from tuning.models.fleet import Machine
from tuning.models.fleet.machine import disturbs
from tuning.models.lifecycle import LeasedQuerySet, Measurement, deciding
from tuning.models.project import seen_by
from tuning.models.run import Run, first_of_free
from tuning.models.shapes import iso, username


class MeasuredAgainDict(TypedDict):
    """The best record that a run had of a workload: its trial, and its latency in seconds in each round.

    There are none if it couldn't be measured; `error` says why. Runs whose records are identical share one measurement.
    """

    workload_hash: str
    """That of `Task.function`: runs may compute it by different algorithms."""
    run: int
    trial: int
    latencies_s: list[float]
    error: str | None


class SideBySideDict(TypedDict):
    """Best records of several `runs`, measured in turn; `measured` is empty until that has ended.

    `progress` is that of the phase, from 0 to 1. Both are null unless a job works on it. Others' processes used `others_cores` of the machine's `cpus`
    while it was measured, on average; null if the machine didn't tell.
    """

    id: int
    runs: list[int]
    status: Literal["queued", "running", "cancelling", "finished", "failed", "cancelled"]
    device: str
    machine: str | None
    phase: str | None
    progress: float | None
    error: str | None
    created_by: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    versions: dict[str, str]
    measured: list[MeasuredAgainDict]
    others_cores: float | None
    cpus: int | None


class SideBySideQuerySet(LeasedQuerySet["SideBySide"]):
    def kept(self) -> SideBySideQuerySet:
        """Those of which no run is deleted."""
        return self.exclude(runs__deleted_at__isnull=False)

    def seen_by(self, user: User | None) -> SideBySideQuerySet:
        """Those all of whose runs belong to the user's projects; all of them for None, the site itself."""
        visible = Run.everything.filter(seen_by(user))
        hidden = SideBySide.runs.through.objects.exclude(run__in=visible)
        return self.exclude(pk__in=hidden.values("sidebyside"))

    def of(self, runs: Iterable[int]) -> SideBySideQuerySet:
        """Those of exactly the runs with these keys, newest first."""
        return self.filter(key=SideBySide.key_of(runs)).order_by("-pk")

    def unfinished(self) -> SideBySideQuerySet:
        """Those that wait for a device or are measured."""
        return self.kept().filter(status__in=(SideBySide.Status.QUEUED, *SideBySide.LIVE))

    def waiting_for(self, device: str, machine: Machine | None = None) -> SideBySideQuerySet:
        """Those that wait for the machine's device: it, or one like it, tuned one of their runs, as far as that is known."""
        rows = self.kept().filter(status=SideBySide.Status.QUEUED, device=device)
        if machine is None:
            return rows
        like = machine.among(Machine.everything.filter(runs__side_by_sides__in=rows).distinct())
        known = rows.filter(runs__machine__isnull=False)
        fit = rows.filter(runs__machine__in=like)
        return rows.filter(Q(pk__in=fit.values("pk")) | ~Q(pk__in=known.values("pk")))

    def forgotten(self) -> SideBySideQuerySet:
        """Of each free device, the first that waits for it."""
        unheard = super().forgotten().kept()
        wanted = set(unheard.values_list("device", flat=True))
        return unheard.filter(pk__in=first_of_free(wanted, self.waiting_for))


class SideBySide(Measurement):
    """A measurement of several runs' best records in turn. One job does all of it, and holds its device meanwhile."""

    runs = models.ManyToManyField(Run, related_name="side_by_sides")
    key = models.CharField(max_length=200)
    """Of its runs: see `key_of`."""
    device = models.CharField(max_length=60)
    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, null=True, related_name="side_by_sides")
    """Whose worker measures it, or did so last."""
    error = models.TextField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    versions = models.JSONField(default=dict)
    """Of the packages that measured it."""
    measured = models.JSONField(default=list)
    """`MeasuredAgainDict`s, once it has finished."""
    others_cores = models.FloatField(null=True)
    """Processors that others' processes used while it was measured, on average; null if the machine didn't tell."""
    cpus = models.PositiveIntegerField(null=True)

    objects = SideBySideQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)
        indexes = (
            models.Index(fields=("key", "id"), name="side_by_side_by_runs"),
            models.Index(fields=("status", "device"), name="side_by_side_by_status"),
        )

    def __str__(self) -> str:
        return f"runs {self.key} side by side"

    @staticmethod
    def key_of(runs: Iterable[int]) -> str:
        """The same for the same runs, in whatever order."""
        return ",".join(map(str, sorted(runs)))

    @property
    def run_keys(self) -> list[int]:
        return [int(key) for key in self.key.split(",")]

    @property
    def is_disturbed(self) -> bool:
        """Whether others used so much of the machine that its figures are noisy."""
        return disturbs({"others_cores": self.others_cores, "cpus": self.cpus})

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        with deciding(self.device, self.taker):
            yield Run.objects.device_is_free(self.device, self.taker)

    def _on_abandoned(self) -> dict[str, Any]:
        if self.status == self.Status.CANCELLING:
            return {"to": self.Status.CANCELLED}
        return {"to": self.Status.FAILED, "error": "The worker stopped responding. Measure again."}

    def to_dict(self) -> SideBySideDict:
        return {
            "id": self.pk,
            "runs": self.run_keys,
            "status": cast("Any", self.status),
            "device": self.device,
            "machine": self.machine.name if self.machine else None,
            "phase": self.phase,
            "progress": self.progress,
            "error": self.error,
            "created_by": username(self.created_by),
            "created_at": self.created_at.isoformat(),
            "started_at": iso(self.started_at),
            "finished_at": iso(self.finished_at),
            "versions": self.versions,
            "measured": self.measured,
            "others_cores": self.others_cores,
            "cpus": self.cpus,
        }
