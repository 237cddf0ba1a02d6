"""Rounds: where their time went, and how well the cost model ranked their candidates."""

from __future__ import annotations

from django.db import models

from tuning.models.run import Run
from tuning.models.task import Task

PARTS = ("search_s", "learn_s", "build_s", "measure_s", "again_s", "wait_s")
"""What the search's thread did; what remains of a round is overhead."""


class Round(models.Model):
    """A batch of one task: searched for, built and measured. Times are in seconds; see the event of the same name.

    Rounds of one process divide its time without gaps. Between processes, and after one that was killed, there may be some.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rounds")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, null=True, related_name="+")
    """Null: the time before a process's first round, and that of confirming."""
    done = models.PositiveIntegerField()
    """Trials of the run that had ended when it began."""
    candidates = models.PositiveIntegerField()
    began_s = models.FloatField()
    """Since the run began."""
    ended_s = models.FloatField()
    search_s = models.FloatField()
    learn_s = models.FloatField()
    build_s = models.FloatField()
    measure_s = models.FloatField()
    again_s = models.FloatField(default=0.0, db_default=0.0)
    """Measuring records again; part of `measure_s` in rows from before this was told apart."""
    wait_s = models.FloatField()
    beside_build_s = models.FloatField()
    """What machines of a pool, or background threads, did meanwhile; they add up over devices."""
    beside_measure_s = models.FloatField()

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"round of run {self.run_id} from trial {self.done + 1}"


class Ranking(models.Model):
    """What the cost model said of measured candidates of a task, just before it learned from them."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rankings")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    done = models.PositiveIntegerField()
    """Trials of the run that had ended."""
    at_s = models.FloatField()
    correlation = models.FloatField(null=True)
    """Spearman's, of predicted and measured speeds; null if either were all equal."""
    scores = models.JSONField()
    """Predicted, one for each candidate; higher is better."""
    latencies_s = models.JSONField()
    """Measured."""

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"ranking of run {self.run_id} at trial {self.done}"
