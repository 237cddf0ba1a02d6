"""Imports: logs that somebody else's tuner wrote, read into runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from .lifecycle import Cancellable, LeasedQuerySet
from .project import Project, seen_by
from .shapes import ImportDict, iso, username


class ImportQuerySet(LeasedQuerySet["Import"]):
    def seen_by(self, user: User | None) -> ImportQuerySet:
        """Imports into the user's projects; all of them for None, the site itself."""
        return self.filter(seen_by(user))


class Import(Cancellable):
    """One upload of log files, and the job that makes runs of them."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="imports")
    files = models.JSONField(default=list)
    """Name, size in bytes and SHA-256 of each uploaded file."""
    options = models.JSONField(default=dict)
    """What the user said of the runs: name, network, weights, and whether to import records that are known."""
    bytes_total = models.PositiveBigIntegerField(default=0)
    bytes_read = models.PositiveBigIntegerField(default=0)
    lines = models.PositiveBigIntegerField(default=0)
    records = models.PositiveBigIntegerField(default=0)
    bad_lines = models.PositiveBigIntegerField(default=0)
    results = models.JSONField(default=list)
    """What became of each log: see `ImportDict`."""
    skipped = models.JSONField(default=list)
    """Files without records, each with the reason."""
    remarks = models.JSONField(default=list)
    """What else there is to say of a file."""
    error = models.TextField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = ImportQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-pk")
        permissions = (("cancel_import", "Can cancel import"),)
        indexes = (models.Index(fields=("status",)),)

    def __str__(self) -> str:
        return f"import {self.pk}"

    @property
    def uploads(self) -> Path:
        """The uploaded files, under names of our making, until they are read.

        The name has the time of creation because a new database starts again with id 1, perhaps next to old files.
        """
        return imports_dir() / f"{self.pk}-{self.created_at:%Y%m%dT%H%M%S.%f}"

    def _on_claim(self) -> dict[str, Any]:
        return {**super()._on_claim(), "started_at": Now()}

    def _on_requeue(self) -> dict[str, Any]:
        return {**super()._on_requeue(), "started_at": None, "bytes_read": 0}

    def _on_abandoned(self) -> dict[str, Any]:
        if self.status == self.Status.CANCELLING:
            return {"to": self.Status.CANCELLED}
        return {"to": self.Status.FAILED, "error": "The worker stopped responding. Import the files again."}

    def to_dict(self) -> ImportDict:
        return {
            "id": self.pk,
            "project": self.project.name,
            "status": self.status,
            "error": self.error,
            "files": self.files,
            "bytes_total": self.bytes_total,
            "bytes_read": self.bytes_read,
            "lines": self.lines,
            "records": self.records,
            "bad_lines": self.bad_lines,
            "results": self.results,
            "skipped": self.skipped,
            "remarks": self.remarks,
            "created_by": username(self.created_by),
            "created_at": self.created_at.isoformat(),
            "finished_at": iso(self.finished_at),
        }


class BadLine(models.Model):
    """A line that couldn't be read, of an import or of a run whose log is watched."""

    KEPT: ClassVar[int] = 2_000
    """As many are stored; all are counted."""

    imported_by = models.ForeignKey(Import, on_delete=models.CASCADE, null=True, related_name="bad_line_set")
    run = models.ForeignKey("tuning.Run", on_delete=models.CASCADE, null=True, related_name="bad_line_set")
    file = models.CharField(max_length=500)
    line = models.PositiveBigIntegerField()
    """From 1."""
    reason = models.TextField()

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.CheckConstraint(
                condition=Q(imported_by__isnull=True, run__isnull=False)
                | Q(imported_by__isnull=False, run__isnull=True),
                name="bad_line_of_import_or_run",
            ),
        )

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


def imports_dir() -> Path:
    return Path(settings.VAR) / "imports"
