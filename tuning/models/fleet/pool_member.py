"""Memberships: a machine that builds and measures candidates of a run on many machines, for as long as it does.

While it does, it holds its device as a live run would. Times are of the database's clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import TypedDict

from .machine import Machine

HELD = timedelta(seconds=30)
"""A membership whose machine hasn't renewed it for this long holds its device no more."""
ANSWER = timedelta(seconds=20)
"""A machine that doesn't accept an invitation within this time is busy; another one is invited."""

REST = timedelta(seconds=20)
"""A machine that left, was lost or didn't answer isn't invited again for this long."""


class MemberDict(TypedDict):
    """A machine of a run's pool. `reason` says why it was left out, lost, or has left early; `trials` were measured there, and `failed` of these.

    `differs` is 0.08 if it was 8 % slower than the pool's first machine when both measured the same candidates; `noise`, by what share its
    usual round was slower than its fastest. Both are null before they were compared, and for the first machine `differs` is.
    """

    machine: str
    state: str
    reason: str
    trials: int
    failed: int
    differs: float | None
    noise: float | None
    joined_at: str | None
    left_at: str | None


class PoolMemberQuerySet(models.QuerySet["PoolMember"]):
    def active(self) -> PoolMemberQuerySet:
        """Those that hold their device."""
        return self.filter(state__in=PoolMember.ACTIVE, heartbeat_at__gte=Now() - HELD)

    def expired(self) -> PoolMemberQuerySet:
        """Those whose machine has died without a word."""
        return self.filter(state__in=PoolMember.ACTIVE, heartbeat_at__lt=Now() - HELD)

    def lose(self) -> int:
        """Those that have expired are lost: nobody else may be left to say so. Returns how many."""
        lost = {"state": PoolMember.State.LOST, "left_at": Now(), "reason": "It stopped responding."}
        return self.expired().update(**lost)

    def unanswered(self) -> PoolMemberQuerySet:
        """Invitations that nobody accepted in time."""
        return self.filter(state=PoolMember.State.INVITED, invited_at__lt=Now() - ANSWER)

    def wanted(self) -> PoolMemberQuerySet:
        """Those that are, or may soon be, of use."""
        return self.filter(state__in=(PoolMember.State.INVITED, *PoolMember.ACTIVE))

    def not_to_be_asked(self) -> PoolMemberQuerySet:
        """Whose machines needn't be invited: they are members, don't equal the others, or have left a moment ago."""
        lately = Q(left_at__gte=Now() - REST)
        return self.filter(
            Q(state__in=(PoolMember.State.INVITED, PoolMember.State.LEFT_OUT, *PoolMember.ACTIVE)) | lately
        )

    def hold(self, device: str, machine: Machine | None) -> bool:
        """Whether a run's pool has the machine's device."""
        return machine is not None and self.active().filter(device=device, machine=machine).exists()


class PoolMember(models.Model):
    """A machine in a run's pool."""

    class State(models.TextChoices):
        """`invited → checking → measuring → left | lost`, or `left_out` after the check."""

        INVITED = "invited"
        CHECKING = "checking"
        """It has joined, and isn't yet known to be equal to the others."""
        MEASURING = "measuring"
        LEFT_OUT = "left_out", "left out"
        LEFT = "left"
        LOST = "lost"

    ACTIVE: ClassVar[tuple[str, ...]] = (State.CHECKING, State.MEASURING)

    run = models.ForeignKey("tuning.Run", on_delete=models.CASCADE, related_name="pool_members")
    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, related_name="pool_members")
    device = models.CharField(max_length=60)
    pool = models.CharField(max_length=32)
    """Names the pool: each process that supervises the run makes a new one."""
    state = models.CharField(max_length=10, choices=State, default=State.INVITED)
    reason = models.TextField(default="")
    lease = models.CharField(max_length=32, default="")
    heartbeat_at = models.DateTimeField(null=True)
    invited_at = models.DateTimeField(db_default=Now())
    joined_at = models.DateTimeField(null=True)
    left_at = models.DateTimeField(null=True)
    trials = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    differs = models.FloatField(null=True)
    noise = models.FloatField(null=True)

    objects = PoolMemberQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("machine", "device"),
                condition=Q(state__in=("checking", "measuring")),
                name="one_pool_a_device",
            ),
        )

    def __str__(self) -> str:
        return f"{self.machine} in the pool of run {self.run_id}"

    def move(self, *sources: str, to: str, **values: Any) -> bool:
        """Change the state if it still is one of `sources`; return whether it did. If so, this instance is up to date."""
        if to not in (*self.ACTIVE, self.State.INVITED):
            values["left_at"] = Now()
        rows = PoolMember.objects.filter(pk=self.pk, state__in=sources)
        moved = rows.update(**{"state": to, **values}) == 1
        if moved:
            self.refresh_from_db(fields=("state", *values))
        return moved

    def join(self) -> bool:
        """Take the device. Call it within `deciding`, after making sure that it is free."""
        PoolMember.objects.filter(machine=self.machine, device=self.device).lose()
        fresh = {"lease": uuid.uuid4().hex, "heartbeat_at": Now(), "joined_at": Now()}
        return self.move(self.State.INVITED, to=self.State.CHECKING, **fresh)

    def renew(self) -> bool:
        """Say that the machine is alive; False when the run no longer wants it."""
        live = {"run__status__in": ("running", "stopping")}
        mine = PoolMember.objects.filter(pk=self.pk, lease=self.lease, state__in=self.ACTIVE, **live)
        return mine.update(heartbeat_at=Now()) == 1

    def to_dict(self) -> MemberDict:
        """The member as API and page show it."""
        return {
            "machine": self.machine.name,
            "state": self.state,
            "reason": self.reason,
            "trials": self.trials,
            "failed": self.failed,
            "differs": self.differs,
            "noise": self.noise,
            "joined_at": self.joined_at.isoformat() if self.joined_at else None,
            "left_at": self.left_at.isoformat() if self.left_at else None,
        }


def shown(rows: Iterable[PoolMember]) -> list[MemberDict]:
    """Without invitations. Of a machine that was a member more than once, what it is now, and what it measured in all."""
    found: dict[str, MemberDict] = {}
    for row in rows:
        if row.state == PoolMember.State.INVITED:
            continue
        now = row.to_dict()
        if before := found.get(now["machine"]):
            now["trials"] += before["trials"]
            now["failed"] += before["failed"]
        found[now["machine"]] = now
    return list(found.values())
