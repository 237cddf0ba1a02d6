"""Machines: the computers whose workers tune, one row each, and whether they are alive.

Their clocks may be wrong, so only the database's clock is ever asked (`Now`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models.functions import Now

LOST = timedelta(seconds=30)
"""A machine whose heartbeat is older is lost: it is off, cut off, or its `up` or `join` was ended."""
DISTURBED = 0.25
"""The share of a machine's processors that others' processes may use before what is measured there isn't trusted any more."""
FULL = 64 << 20
"""A machine with fewer bytes free in its data folder takes nothing: its runs would fail, one after the other."""


class MachineQuerySet(models.QuerySet["Machine"]):
    def names(self) -> dict[int | None, str]:
        """By key, so that a row without a machine finds none."""
        return dict(self.values_list("pk", "name"))

    def disturbed(self) -> frozenset[str]:
        """Names of the machines that were heard of lately and that others' processes use too much for measurements."""
        return frozenset(name for name, load in self.alive().values_list("name", "load") if disturbs(load))

    def alive(self) -> MachineQuerySet:
        """Machines that were heard of lately."""
        return self.filter(heartbeat_at__gte=Now() - LOST)

    def lost(self) -> MachineQuerySet:
        """Machines that should be there and aren't."""
        return self.filter(heartbeat_at__lt=Now() - LOST)

    def taking_work(self) -> MachineQuerySet:
        """Machines that are alive and may take something."""
        return self.alive().filter(draining_at__isnull=True, trouble="")


_Machines = models.Manager.from_queryset(MachineQuerySet)


class KnownMachines(_Machines["Machine"]):
    """Machines that weren't forgotten."""

    def get_queryset(self) -> MachineQuerySet:
        return MachineQuerySet(self.model, using=self._db).filter(forgotten_at__isnull=True)


class Machine(models.Model):
    """A computer with workers of this site. Its `up` or `join` registers it and keeps its heartbeat."""

    class State(models.TextChoices):
        """What it does; the first of these that holds."""

        LOST = "lost"
        WAITING = "waiting"
        """Something about it doesn't fit, such as its versions: it takes nothing (`trouble`)."""
        DRAINING = "draining"
        """It takes nothing more, and still has something in hand."""
        DRAINED = "drained"
        TUNING = "tuning"
        IDLE = "idle"

    name = models.CharField(max_length=63, unique=True)
    key = models.CharField(max_length=100, unique=True)
    """Random, and kept in its data folder: whoever has it is this machine, whatever its name."""
    cpu = models.CharField(max_length=60, default="")
    """As LLVM calls it; empty until it was asked."""
    cores = models.PositiveIntegerField(default=0)
    """TVM's `num-cores` of its target `this`; 0 until it was asked."""
    memory = models.PositiveBigIntegerField(default=0)
    """In bytes."""
    devices = models.JSONField(default=list)
    """What its workers tune on: `cpu`, `cuda:0`."""
    target = models.JSONField(null=True)
    """What `this` is there, as a target's dict; null until it was asked."""
    features = models.JSONField(default=list)
    """What decides which code it can run: its architecture, and the instructions of its CPU. See `Needs`."""
    versions = models.JSONField(default=dict)
    """By package, with `tuneboard` and `python`."""
    load = models.JSONField(default=dict)
    """Its last `Load`; see `tuning.host.machine.load`."""
    joined_at = models.DateTimeField(db_default=Now())
    storage = models.CharField(max_length=1200, default="")
    """Its TUNEBOARD_STORAGE; empty if an earlier version didn't tell."""
    heartbeat_at = models.DateTimeField(db_default=Now())
    draining_at = models.DateTimeField(null=True)
    """Since when it takes nothing more, at the wish of an admin."""
    trouble = models.TextField(default="")
    """Why it has to wait, and what helps; empty if nothing is wrong."""
    forgotten_at = models.DateTimeField(null=True)
    """Not shown and not used any more; the row stays for the runs that were tuned there. Joining again brings it back."""

    objects = KnownMachines()
    everything = MachineQuerySet.as_manager()

    heard_of: bool | None = None
    """Whether it was heard of lately, if whoever read the row has found out."""
    busy: bool | None = None
    """Whether something is measured there; likewise."""

    class Meta:
        ordering = ("name",)
        permissions = (("drain_machine", "Can drain machine"),)

    def __str__(self) -> str:
        return self.name

    @property
    def is_alive(self) -> bool:
        """Whether it was heard of lately."""
        known = self.heard_of
        return Machine.objects.alive().filter(pk=self.pk).exists() if known is None else known

    @property
    def is_draining(self) -> bool:
        return self.draining_at is not None

    @property
    def is_full(self) -> bool:
        """Whether its disk is, by its load."""
        return is_full(self.load)

    @property
    def is_busy(self) -> bool:
        """Whether a run is tuned or measured there, a library is proven, or runs are measured side by side."""
        if self.busy is None:
            if self.pool_members.active().exists():
                return True
            measuring = self.compilations.live().filter(stage__in=("choose", "prove"))
            return self.runs.live().exists() or measuring.exists() or self.side_by_sides.live().exists()
        return self.busy

    @property
    def state(self) -> str:
        """A `State`."""
        if not self.is_alive:
            return self.State.LOST
        if self.trouble:
            return self.State.WAITING
        if self.is_draining:
            return self.State.DRAINING if self.is_busy else self.State.DRAINED
        return self.State.TUNING if self.is_busy else self.State.IDLE

    @property
    def is_disturbed(self) -> bool:
        """Whether others' processes use so much of it that what is measured there now is noisy."""
        return self.is_busy and self.is_alive and disturbs(self.load)

    @property
    def can_drain(self) -> bool:
        return not self.is_draining

    @property
    def can_forget(self) -> bool:
        """Whether nothing is done there that anybody would miss."""
        return self.state in (self.State.LOST, self.State.DRAINED)

    def is_like(self, other: Machine) -> bool:
        """Whether measurements on both can be compared: the same CPU, cores and versions of what tunes."""
        return (self.cpu, self.cores, tuned_by(self.versions)) == (other.cpu, other.cores, tuned_by(other.versions))

    def among(self, others: Iterable[Machine]) -> list[int]:
        """The keys of those of the others that are this one, or like it."""
        return [other.pk for other in others if other == self or self.is_like(other)]


def disturbs(load: Mapping[str, Any]) -> bool:
    """Whether, by its load, others' processes use so much of a machine that what is measured there is noisy."""
    others, cpus = load.get("others_cores"), load.get("cpus")
    return others is not None and cpus is not None and bool(others > DISTURBED * cpus)


def is_full(load: Mapping[str, Any]) -> bool:
    """Whether, by its load, there is too little space on a machine's disk."""
    free = load.get("disk_free")
    return free is not None and bool(free < FULL)


def tuned_by(versions: dict[str, str]) -> dict[str, str]:
    """The versions that matter for what is measured: Python's minor version changes nothing there."""
    return {name: version for name, version in versions.items() if name != "python"}
