"""Tags by which users find runs."""

from __future__ import annotations

from django.db import models

from .run import Run

LONGEST = 40
"""Characters of a tag."""


class Tag(models.Model):
    """A tag of one run. Each is a row, so two people can edit a run's tags at once and lose nothing."""

    # Without an index: the constraint has one that begins with this column.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tags", db_index=False)
    name = models.CharField(max_length=LONGEST)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("run", "name"), name="tag_once_a_run"),)
        indexes = (models.Index(fields=("name", "run"), name="tag_by_name"),)

    def __str__(self) -> str:
        return self.name
