"""A run's tasks, their best records, and what is alarming about a task."""

from __future__ import annotations

from django.db import models

from .run import Run
from .shapes import Alert, TaskDict
from .subgraph import Subgraph

ALARMING_FAILURES = 16
"""A task whose first trials failed this often gets an alert."""


class Task(Subgraph):
    """One fused subgraph of a run's network, with its counters."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tasks")
    chosen = models.BooleanField(default=True)
    """Whether the run tunes it."""
    plateaued = models.BooleanField(default=False)
    """It gains no more, by the run's own options."""
    trials = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    best_latency_s = models.FloatField(null=True)
    best_trial = models.PositiveIntegerField(null=True)

    class Meta(Subgraph.Meta):
        constraints = (models.UniqueConstraint(fields=("run", "index"), name="task_index_once_a_run"),)
        indexes = (models.Index(fields=("workload_hash",)),)

    @property
    def gflops(self) -> float | None:
        """Speed of the best trial in 10⁹ floating-point operations a second; None when unknown or without any."""
        return self.flop / self.best_latency_s / 1e9 if self.best_latency_s and self.flop else None

    def alert(self, *, everyone_had_a_turn: bool) -> Alert | None:
        """Why this task needs a look, if it does."""
        if self.trials == 0 or self.trials > self.failed:
            return None
        if self.trials >= ALARMING_FAILURES:
            return {
                "kind": "all_failed",
                "task": self.index,
                "message": f"Task {self.index} {self.name}: all of its {self.trials} trials failed.",
            }
        if everyone_had_a_turn:
            return {
                "kind": "starved",
                "task": self.index,
                "message": f"Task {self.index} {self.name} has no valid trial, so there is no estimate. "
                "It is tried again while the budget lasts.",
            }
        return None

    def to_dict(self) -> TaskDict:
        """The task as API and socket show it."""
        return {
            "index": self.index,
            "name": self.name,
            "weight": self.weight,
            "flop": self.flop,
            "args": self.args,
            "trials": self.trials,
            "failed": self.failed,
            "best_latency_s": self.best_latency_s,
            "best_trial": self.best_trial,
            "gflops": self.gflops,
            "chosen": self.chosen,
            "plateaued": self.plateaued,
        }


class Record(models.Model):
    """The engine's serial form of one of a task's best trials."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="records")
    trial = models.PositiveIntegerField()
    """The trial's number in its run."""
    latency_s = models.FloatField()
    text = models.TextField()

    class Meta:
        ordering = ("latency_s", "trial")
        constraints = (models.UniqueConstraint(fields=("task", "trial"), name="record_once_a_trial"),)

    def __str__(self) -> str:
        return f"record of trial {self.trial}"
