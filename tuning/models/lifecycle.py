"""The life of a row that jobs work on: queued, claimed, renewed, ended; abandoned when its worker died, forgotten when no worker heard of it.

Every change is a conditional UPDATE that checks that one row changed, so whoever lost a row changes nothing. All times are the
database's (`Now`): the clocks of machines may differ by hours.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.dispatch import Signal
from typing_extensions import Self

from .fleet import Machine, is_shared

LEASE = timedelta(seconds=30)
"""A worker that hasn't renewed its lease for this long is presumed dead."""
TELL_AGAIN = timedelta(seconds=30)
"""A row that stays queued for this long is announced to the workers again: the broker may have lost the message."""
A_TICK = timedelta(milliseconds=2)
"""Less than the time between two renewals."""

ended = Signal()
"""Sent with `row` in the transaction that ended it, so that what receivers store is stored with the end or not at all."""

Row = TypeVar("Row", bound="Queued")


def drawn_lease() -> str:
    """A name for a claim, which nobody else has."""
    return uuid.uuid4().hex


def not_within(column: str, span: timedelta) -> Q:
    """Whether the time isn't about now. One that is ahead was written before the clock was set back."""
    return Q(**{f"{column}__lt": Now() - span}) | Q(**{f"{column}__gt": Now() + span})


class QueuedQuerySet(models.QuerySet[Row]):
    def live(self) -> Self:
        """Rows that a job should be working on."""
        return self.filter(status__in=self.model.LIVE)

    def forgotten(self) -> Self:
        """Queued rows that weren't announced to a worker lately."""
        unannounced = Q(enqueued_at__isnull=True) | not_within("enqueued_at", TELL_AGAIN)
        return self.filter(unannounced, status=self.model.QUEUED)


class LeasedQuerySet(QueuedQuerySet[Row]):
    def abandoned(self) -> Self:
        """Live rows whose worker hasn't renewed its lease in time."""
        return self.live().filter(not_within("heartbeat_at", LEASE))


class Queued(models.Model):
    """A row that jobs work on, one at a time. Subclasses say what sets theirs apart by overriding the hooks (`_…`)."""

    QUEUED: ClassVar[str] = "queued"
    LIVE: ClassVar[tuple[str, ...]] = ("running",)
    READ_ON_RENEWAL: ClassVar[tuple[str, ...]] = ("status",)
    """Columns by which users steer a live row."""
    READ_ELSEWHERE: ClassVar[Mapping[str, str]] = {}
    """Likewise, columns of other tables, by the attribute that gets the value."""

    status = models.CharField(max_length=12)
    enqueued_at = models.DateTimeField(null=True)
    """When a worker was last told of it."""

    class Meta:
        abstract = True

    def claim(self) -> bool:
        """Take the row for this process; False when it isn't queued anymore, or when its turn hasn't come."""
        with self._turn() as has_come:
            claimed = has_come and self._claimable().update(**self._on_claim()) == 1
        self.refresh_from_db(fields=None if claimed else ("status",))
        return claimed

    def wait_and_claim(self, shutdown: threading.Event, poll_s: float = 1.0, *, wait: bool = True) -> bool:
        """Wait for the row's turn and claim it; False when it isn't queued anymore, or at shutdown."""
        while not self.claim():
            if not wait or self.status != self.QUEUED or shutdown.wait(poll_s):
                return False
        return True

    def move(self, *sources: str, to: str, where: Mapping[str, Any] | None = None, **values: Any) -> bool:
        """Change the status if it still is one of `sources` and the row still matches `where`; return whether it did.

        If so, this instance is refreshed.
        """
        rows = type(self)._default_manager.filter(pk=self.pk, status__in=sources, **(where or {}))  # noqa: SLF001
        moved = rows.update(**{"status": to, **values}) == 1
        if moved:
            self.refresh_from_db(fields=("status", *values))
        return moved

    def end(self, *sources: str, to: str, where: Mapping[str, Any] | None = None, **values: Any) -> bool:
        """Move the row to its end and send `ended`, in one transaction; return whether it moved."""
        with transaction.atomic():
            moved = self.move(*sources, to=to, where=where, **{**self._on_end(), **values})
            if moved:
                ended.send(type(self), row=self)
        return moved

    def finish(self, *sources: str, to: str, where: Mapping[str, Any] | None = None, **values: Any) -> bool:
        """End the row that this process claimed; False when it was taken away. `sources` are all live statuses by default."""
        return self.end(*(sources or self.LIVE), to=to, where={**self.hold, **(where or {})}, **values)

    def requeue(self, *sources: str, where: Mapping[str, Any] | None = None, **values: Any) -> bool:
        """Queue the row again if its status still is one of `sources`; return whether it was."""
        fresh = {"enqueued_at": None, **self._on_requeue(), **values}
        return self.move(*sources, to=self.QUEUED, where=where, **fresh)

    def announced(self) -> None:
        """Note that a worker was told of the row."""
        type(self)._default_manager.filter(pk=self.pk).update(enqueued_at=Now())  # noqa: SLF001

    @property
    def hold(self) -> dict[str, Any]:
        """The conditions that a row meets for as long as the process that claimed this instance holds it."""
        raise NotImplementedError

    def held(self) -> models.QuerySet[Self]:
        """The row, if the process that claimed this instance still holds it."""
        return type(self)._default_manager.filter(pk=self.pk, status__in=self.LIVE, **self.hold)  # noqa: SLF001

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Decide whether the row may be claimed; the claim happens inside."""
        yield True

    def _claimable(self) -> models.QuerySet[Self]:
        return type(self)._default_manager.filter(pk=self.pk, status=self.QUEUED)  # noqa: SLF001

    def _on_claim(self) -> dict[str, Any]:
        """Columns to set when the row is claimed."""
        raise NotImplementedError

    def _on_end(self) -> dict[str, Any]:
        return {"finished_at": Now()}

    def _on_requeue(self) -> dict[str, Any]:
        return {"finished_at": None, "error": None}


class Leased(Queued):
    """A row whose job proves that it is alive by renewing a lease."""

    lease = models.CharField(max_length=32, null=True)
    """Names the claim: a new one is drawn each time, and only its holder may change a live row."""
    heartbeat_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    @property
    def hold(self) -> dict[str, Any]:
        return {"lease": self.lease}

    def renew(self, **values: Any) -> bool:
        """Renew the lease, with other columns to set, and read what users want now; False when the row was taken away."""
        if not self.held().update(heartbeat_at=Now(), **values):
            return False
        elsewhere = {name: F(path) for name, path in self.READ_ELSEWHERE.items()}
        wanted = self.held().values(*self.READ_ON_RENEWAL, **elsewhere).first()
        for name, value in (wanted or {}).items():
            setattr(self, name, value)
        return wanted is not None

    def end_abandoned(self) -> bool:
        """End the row, whose lease ran out when this instance was read; False when it was renewed or changed since."""
        # SQLite keeps the milliseconds of `Now`, as text in which Django would write six digits.
        seen: dict[str, Any] = {"lease": self.lease, "heartbeat_at": None}
        if self.heartbeat_at is not None:
            about = (self.heartbeat_at - A_TICK, self.heartbeat_at + A_TICK)
            seen = {"lease": self.lease, "heartbeat_at__range": about}
        return self.end(self.status, where=seen, **self._on_abandoned())

    def _on_claim(self) -> dict[str, Any]:
        return {"status": "running", "lease": drawn_lease(), "heartbeat_at": Now(), "error": None}

    def _on_abandoned(self) -> dict[str, Any]:
        """The end of a row whose worker died: `to` and columns to set."""
        raise NotImplementedError


class Cancellable(Leased):
    """A row whose job users may cancel."""

    class Status(models.TextChoices):
        """`queued → running → (cancelling →) finished | failed | cancelled`."""

        QUEUED = "queued"
        RUNNING = "running"
        CANCELLING = "cancelling"
        FINISHED = "finished"
        FAILED = "failed"
        CANCELLED = "cancelled"

    LIVE: ClassVar[tuple[str, ...]] = (Status.RUNNING, Status.CANCELLING)
    ENDED: ClassVar[tuple[str, ...]] = (Status.FINISHED, Status.FAILED, Status.CANCELLED)

    status = models.CharField(max_length=12, choices=Status.choices, default=Status.QUEUED)

    class Meta:
        abstract = True

    @property
    def is_live(self) -> bool:
        return self.status in self.LIVE

    @property
    def has_ended(self) -> bool:
        return self.status in self.ENDED

    @property
    def can_cancel(self) -> bool:
        return self.status in (self.Status.QUEUED, self.Status.RUNNING)


class Measurement(Cancellable):
    """A row whose job measures on a device, and tells how far it is."""

    taker: Machine | None = None
    """The machine of the process that is going to claim it; None if the site doesn't know that machine."""

    phase = models.CharField(max_length=20, null=True)
    """A `PhaseName` of its process while a job works on it."""
    progress = models.FloatField(null=True)
    """Of the phase, from 0 to 1; null if it isn't known."""
    queued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def _on_claim(self) -> dict[str, Any]:
        fresh = {"started_at": self.started_at or Now(), "machine": self.taker}
        return {**super()._on_claim(), **fresh, "phase": "loading", "progress": None}

    def _on_end(self) -> dict[str, Any]:
        return {**super()._on_end(), "phase": None, "progress": None}

    def _on_requeue(self) -> dict[str, Any]:
        return {**super()._on_requeue(), "queued_at": Now(), "phase": None, "progress": None}


class DeviceTurn(models.Model):
    """A row for each device of each machine. It is locked to decide whose turn is next, since that depends on two tables."""

    device = models.CharField(max_length=100, primary_key=True)

    def __str__(self) -> str:
        return self.device


@contextmanager
def deciding(device: str, machine: Machine | None = None) -> Iterator[None]:
    """A transaction in which nobody else decides whose turn the machine's device is, or one that the site shares."""
    if machine is not None and not is_shared(device):
        device = f"{machine.pk} {device}"
    with transaction.atomic():
        DeviceTurn.objects.get_or_create(device=device)
        DeviceTurn.objects.select_for_update().get(device=device)
        yield
