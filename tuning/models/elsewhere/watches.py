"""Watches: log files that other processes write, followed as they grow."""

from __future__ import annotations

from django.db import models

from tuning.models.project import Project
from tuning.models.run import Run

from .kept import Kept


class WatchQuerySet(models.QuerySet["Watch"]):
    def of_file(self, path: str, project: Project) -> WatchQuerySet:
        """Of the runs that a file is in a project, one a target, the oldest first. Not of deleted ones."""
        kept = self.filter(path=path, project=project, run__deleted_at=None)
        return kept.select_related("run__network", "run__project", "run__created_by").order_by("run_id")


class Watch(Kept):
    """How far a file is read. The run that it belongs to is claimed and leased like one that is tuned here."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="watch")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    path = models.CharField(max_length=4096)
    """Absolute."""
    place = models.PositiveBigIntegerField(default=0)
    """Bytes that are read, up to the end of a line."""
    line = models.PositiveBigIntegerField(default=0)
    """Lines that are read."""
    before = models.BinaryField(default=b"")
    """The last bytes before that place, by which the file is known again."""
    began = models.FloatField(null=True)
    """The first timestamp of the session, in seconds since 1970."""
    offset_s = models.FloatField(default=0.0)
    """Seconds that the run had been tuned when the session began."""
    heard_at = models.DateTimeField(null=True)
    """When a line came last."""
    foreground = models.BooleanField(default=False)
    """A command in a terminal reads it, so no worker does."""

    objects = WatchQuerySet.as_manager()

    def __str__(self) -> str:
        return self.path

    @property
    def tuned(self) -> Run:
        return self.run
