"""Rows that a process is at work on: it holds a lease, and whoever lost it changes nothing any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils import timezone

LEASE = timedelta(seconds=30)
"""Who hasn't renewed the lease for this long is taken for dead."""
TELL_AGAIN = timedelta(seconds=30)
"""What is queued is announced to the workers again after this long."""


def lease_ran_out() -> Q:
    """Whoever held the lease hasn't renewed it in time."""
    return Q(heartbeat_at__lt=timezone.now() - LEASE)


def told_long_ago() -> Q:
    """No worker was told of it lately."""
    return Q(enqueued_at__isnull=True) | Q(enqueued_at__lt=timezone.now() - TELL_AGAIN)


class Leased(models.Model):
    """Has a `status` as well, of its own kinds."""

    enqueued_at = models.DateTimeField(null=True)
    """When a worker was last told of it. The broker may forget; the sweep tells again."""
    lease = models.CharField(max_length=32, null=True)
    """Names who may write to it; a new one is drawn at each claim."""
    heartbeat_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def move(self, *sources: str, to: str, mine: Mapping[str, Any] | None = None, **values: Any) -> bool:
        """Change the status if it is one of `sources` still and the row is as `mine` says; says whether it did.

        Refreshes this instance if so.
        """
        conditions: dict[str, Any] = {"pk": self.pk, "status__in": sources, **(mine or {})}
        moved = type(self)._default_manager.filter(**conditions).update(**{"status": to, **values}) == 1  # noqa: SLF001
        if moved:
            self.refresh_from_db(fields=("status", *values))
        return moved
