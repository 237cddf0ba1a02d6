"""What the allowed trackers said lately."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils import timezone

KEPT = timedelta(hours=1)


class TrackerSampleQuerySet(models.QuerySet["TrackerSample"]):
    """Reads of samples."""

    def recent(self, tracker: str) -> TrackerSampleQuerySet:
        """The tracker's of the last hour, in their order."""
        return self.filter(tracker=tracker, at__gte=timezone.now() - KEPT).order_by("at")

    def outdated(self) -> TrackerSampleQuerySet:
        """Those that no page shows any more."""
        return self.filter(at__lt=timezone.now() - KEPT)


class TrackerSample(models.Model):
    """A tracker's queues at one moment, or why they aren't known."""

    tracker = models.CharField(max_length=20)
    at = models.DateTimeField(default=timezone.now)
    queues = models.JSONField(default=dict)
    """Key to total, free, pending."""
    error = models.TextField(null=True)

    objects = TrackerSampleQuerySet.as_manager()

    class Meta:
        indexes = (models.Index(fields=("tracker", "at")),)

    def __str__(self) -> str:
        return f"{self.tracker} at {self.at.isoformat()}"
