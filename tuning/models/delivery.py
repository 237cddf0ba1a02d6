"""The outbox: messages to the addresses in TUNEBOARD_WEBHOOKS, and what became of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from .lifecycle import Queued, QueuedQuerySet

RETRIES = tuple(timedelta(seconds=seconds) for seconds in (10, 60, 300, 1800, 7200, 21_600))
"""How long to wait after each failed attempt; after the last one the message is given up."""
IN_HAND = timedelta(seconds=60)
"""An attempt that takes longer than this is presumed dead, and the message is due again."""
KEPT = timedelta(days=30)
"""How long sent and failed messages stay on the page."""


class DeliveryQuerySet(QueuedQuerySet["Delivery"]):
    def forgotten(self) -> DeliveryQuerySet:
        return super().forgotten().filter(due_at__lte=Now())

    def outdated(self) -> DeliveryQuerySet:
        return self.exclude(status=Delivery.Status.WAITING).filter(created_at__lt=Now() - KEPT)


class Delivery(Queued):
    """One message to one address. It outlives the run or compilation that it is about, so it refers to that by id only."""

    class Status(models.TextChoices):
        """`waiting → sent | failed`; waiting again when an admin sends it again."""

        WAITING = "waiting"
        SENT = "sent"
        FAILED = "failed"

    QUEUED: ClassVar[str] = Status.WAITING
    LIVE: ClassVar[tuple[str, ...]] = (Status.WAITING,)
    """An attempt doesn't show in the status: whoever makes it moves `due_at` ahead, so that nobody else does."""

    url = models.TextField()
    kind = models.CharField(max_length=40)
    """`run.finished`, `compilation.failed`, `test`, …"""
    message = models.JSONField()
    """The body, without the site's address."""
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    answer = models.TextField(default="")
    """The outcome of the last attempt."""
    due_at = models.DateTimeField(default=timezone.now)
    """When it is tried next."""
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(fields=("status", "due_at"), name="deliveries_due"),
            models.Index(fields=("-created_at", "-id"), name="deliveries_latest"),
        )

    def __str__(self) -> str:
        return f"{self.kind} to {self.url}"

    @property
    def key(self) -> str:
        """The message's id, the same for each attempt, so that a receiver can tell duplicates."""
        return f"tuneboard-{self.pk}-{self.created_at:%Y%m%dT%H%M%S%f}"

    @property
    def tried_at(self) -> datetime:
        """When the attempt in hand began."""
        return self.due_at - IN_HAND

    @property
    def hold(self) -> dict[str, Any]:
        return {"attempts": self.attempts}

    def succeeded(self, answer: str) -> bool:
        """Note that the address accepted the message; False when a later attempt has begun."""
        return self.finish(to=self.Status.SENT, answer=answer)

    def failed(self, answer: str) -> bool:
        """Note why the attempt failed, and try again later or give up; False when a later attempt has begun."""
        if self.attempts > len(RETRIES):
            return self.give_up(answer)
        due_at = Now() + RETRIES[self.attempts - 1]
        return self.requeue(self.Status.WAITING, where=self.hold, attempts=self.attempts, answer=answer, due_at=due_at)

    def give_up(self, answer: str) -> bool:
        return self.finish(to=self.Status.FAILED, answer=answer)

    def again(self) -> bool:
        """Queue the message again after it was given up; return whether it was."""
        return self.requeue(self.Status.FAILED)

    def _claimable(self) -> models.QuerySet[Delivery]:
        return super()._claimable().filter(due_at__lte=Now())

    def _on_claim(self) -> dict[str, Any]:
        return {"due_at": Now() + IN_HAND, "attempts": models.F("attempts") + 1}

    def _on_end(self) -> dict[str, Any]:
        return {"ended_at": Now()}

    def _on_requeue(self) -> dict[str, Any]:
        return {"attempts": 0, "due_at": Now(), "ended_at": None}
