"""What the trackers reported in the last hour."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils import timezone

KEPT = timedelta(hours=1)


class TrackerSampleQuerySet(models.QuerySet["TrackerSample"]):
    def recent(self, tracker: str) -> TrackerSampleQuerySet:
        """The tracker's samples of the last hour, oldest first."""
        return self.filter(tracker=tracker, at__gte=timezone.now() - KEPT).order_by("at")

    def outdated(self) -> TrackerSampleQuerySet:
        """Samples that no page shows anymore."""
        return self.filter(at__lt=timezone.now() - KEPT)


class TrackerSample(models.Model):
    """A tracker's queues at one moment, or the error that kept it from reporting them."""

    tracker = models.CharField(max_length=20)
    at = models.DateTimeField(default=timezone.now)
    queues = models.JSONField(default=dict)
    """By key: total, free and pending devices."""
    error = models.TextField(null=True)

    objects = TrackerSampleQuerySet.as_manager()

    class Meta:
        indexes = (models.Index(fields=("tracker", "at")),)

    def __str__(self) -> str:
        return f"{self.tracker} at {self.at.isoformat()}"
