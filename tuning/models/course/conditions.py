"""What the machine was like while a run measured on it."""

from __future__ import annotations

from django.db import models

from tuning.models.run import Run


class ConditionSession(models.Model):
    """The machine as a session of a run found it."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="condition_sessions")
    at_s = models.FloatField()
    """Seconds of tuning since the run began."""
    machine = models.CharField(max_length=63)
    processor = models.JSONField(default=dict)
    """`tuning.host.machine.processor.Processor`; empty if the machine didn't tell."""

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"{self.machine} in run {self.run_id}"


class ConditionSample(models.Model):
    """A few seconds, or in a long run minutes, up to `at_s`. Null is what the machine doesn't tell."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="condition_samples")
    machine = models.CharField(max_length=63, default="", db_default="")
    """Which one of the run's pool; empty without one: there is the machine of the session."""
    at_s = models.FloatField()
    done = models.PositiveIntegerField()
    """Trials of the run that had ended."""
    others_cores = models.FloatField(null=True)
    """Processors that others' processes used, on average."""
    cpus = models.PositiveIntegerField(null=True)
    mhz = models.FloatField(null=True)
    """Mean over its processors."""
    least_mhz = models.FloatField(null=True)
    """The slowest processor's lowest."""
    celsius = models.FloatField(null=True)
    """The hottest sensor's highest."""

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"run {self.run_id} after {self.at_s:.0f} s"
