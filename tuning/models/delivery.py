"""What the addresses of the settings are to be told, and what became of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from .leased import told_long_ago

RETRIES = tuple(timedelta(seconds=seconds) for seconds in (10, 60, 300, 1800, 7200, 21_600))
"""How long after each failure it is tried again; after the last it is given up."""
IN_HAND = timedelta(seconds=60)
"""Within which a job that took it has an answer. After that the job is taken for dead."""
KEPT = timedelta(days=30)
"""How long it is shown what became of it."""


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    """Reads of deliveries."""

    def due(self) -> DeliveryQuerySet:
        """Those to be tried now, that no worker was told of lately."""
        return self.filter(told_long_ago(), status=Delivery.Status.WAITING, due_at__lte=timezone.now())

    def outdated(self) -> DeliveryQuerySet:
        """Those that nobody asks for any more."""
        return self.exclude(status=Delivery.Status.WAITING).filter(created_at__lt=timezone.now() - KEPT)


class Delivery(models.Model):
    """One message to one address. It outlives what it tells of, so it names that by number only."""

    class Status(models.TextChoices):
        """`waiting → sent | failed`; waiting again when somebody wants it sent once more."""

        WAITING = "waiting"
        SENT = "sent"
        FAILED = "failed"

    url = models.TextField()
    kind = models.CharField(max_length=40)
    """`run.finished`, `compilation.failed`, `test`, …"""
    message = models.JSONField()
    """The body, but for where the site is found."""
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    answer = models.TextField(default="")
    """What came of the last attempt, in words."""
    due_at = models.DateTimeField(default=timezone.now)
    """When it is tried next. Who takes it sets this ahead, so nobody else does meanwhile."""
    enqueued_at = models.DateTimeField(null=True)
    """When a worker was last told of it."""
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
        """The same at each attempt, so that who gets it twice notices."""
        return f"tuneboard-{self.pk}-{self.created_at:%Y%m%dT%H%M%S%f}"

    def claim(self) -> bool:
        """Take it for one attempt; False when it isn't due any more."""
        now = timezone.now()
        due = Delivery.objects.filter(pk=self.pk, status=self.Status.WAITING, due_at__lte=now)
        claimed = due.update(due_at=now + IN_HAND, attempts=models.F("attempts") + 1)
        self.refresh_from_db()
        return claimed == 1

    def succeeded(self, answer: str) -> None:
        """The address took it."""
        self._note(status=self.Status.SENT, answer=answer, ended_at=timezone.now())

    def failed(self, answer: str) -> None:
        """The address didn't: try again later, or give up."""
        now = timezone.now()
        if self.attempts > len(RETRIES):
            self._note(status=self.Status.FAILED, answer=answer, ended_at=now)
        else:
            self._note(answer=answer, due_at=now + RETRIES[self.attempts - 1], enqueued_at=None)

    def give_up(self, answer: str) -> None:
        """There is no use in trying again."""
        self._note(status=self.Status.FAILED, answer=answer, ended_at=timezone.now())

    def again(self) -> bool:
        """Send once more what was given up; says whether it was."""
        given_up = Delivery.objects.filter(pk=self.pk, status=self.Status.FAILED)
        fresh = {"attempts": 0, "due_at": timezone.now(), "enqueued_at": None, "ended_at": None}
        return given_up.update(status=self.Status.WAITING, **fresh) == 1

    def _note(self, **values: Any) -> None:
        """Only of the attempt that this is: a job that came back too late changes nothing."""
        Delivery.objects.filter(pk=self.pk, status=self.Status.WAITING, attempts=self.attempts).update(**values)
        self.refresh_from_db()
