"""How much of a run's own record files is known to the database."""

from __future__ import annotations

from django.db import models

from tuning.models.run import Run


class Kept(models.Model):
    """A run whose records are copied into its folder as they come."""

    record_bytes = models.PositiveBigIntegerField(default=0)
    """Of the run's record file. What a killed process wrote beyond that was never counted, and is overwritten."""
    workload_bytes = models.PositiveBigIntegerField(default=0)
    """The same of MetaSchedule's workload file."""
    workloads = models.JSONField(default=list)
    """The index of the task of each of its lines."""

    class Meta:
        abstract = True

    @property
    def tuned(self) -> Run:
        """The run."""
        raise NotImplementedError
