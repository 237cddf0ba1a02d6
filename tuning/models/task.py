"""A run's tasks, their best records, and what is alarming about a task."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import models
from django.db.models import Case, F, Value, When, Window
from django.db.models.functions import RowNumber

from tuning.estimate import total, weighted

from .run import Run
from .shapes import Alert, TaskDict
from .subgraph import Subgraph

ALARMING_FAILURES = 16
"""A task whose first trials failed this often gets an alert."""


class Doubt(models.IntegerChoices):
    """How far a measurement is to be believed here: of two that are known, the less doubtful one comes first."""

    NONE = 0, "measured with the installed TVM"
    OTHER_TVM = 1, "measured with another TVM, or one that isn't recorded"
    SYNTHETIC = 2, "never measured"


def doubt(run: str, tvm: str | None) -> Case:
    """The `Doubt` about what a run measured, as an expression; `run` is the way to the run, `tvm` the installed version."""
    return Case(
        When(**{f"{run}__synthetic": True}, then=Value(Doubt.SYNTHETIC)),
        When(**{f"{run}__versions__apache-tvm": tvm or ""}, then=Value(Doubt.NONE)),
        default=Value(Doubt.OTHER_TVM),
        output_field=models.IntegerField(),
    )


class TaskQuerySet(models.QuerySet["Task"]):
    """Reads of tasks."""

    def kept(self) -> TaskQuerySet:
        """Those whose run isn't deleted."""
        return self.filter(run__deleted_at__isnull=True)

    def measured(self) -> TaskQuerySet:
        """Those with a valid trial."""
        return self.filter(best_latency_s__isnull=False)

    def best_known(self, tvm: str | None) -> TaskQuerySet:
        """Of each workload and target the one task that holds the best, over all these: the least doubtful, and of these the fastest."""
        place = Window(
            RowNumber(),
            partition_by=[F("workload_hash"), F("run__target_fingerprint")],
            order_by=[doubt("run", tvm), F("best_latency_s"), F("pk")],
        )
        # Ranked in the index alone, since rows are long.
        first = self.measured().annotate(place=place).filter(place=1).values("pk")
        return Task.objects.filter(pk__in=first)


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

    objects = TaskQuerySet.as_manager()

    class Meta(Subgraph.Meta):
        constraints = (models.UniqueConstraint(fields=("run", "index"), name="task_index_once_a_run"),)
        # Holds all that the library ranks by: rows are long.
        indexes = (models.Index(fields=("workload_hash", "run", "best_latency_s")),)

    @property
    def gflops(self) -> float | None:
        """Speed of the best trial in 10⁹ floating-point operations a second; None when unknown or without any."""
        return self.gflops_at(self.best_latency_s) if self.best_latency_s else None

    @property
    def weighted_latency_s(self) -> float | None:
        """The task's part of the estimate."""
        return weighted(self.best_latency_s, self.weight)

    def gflops_at(self, latency_s: float) -> float | None:
        """The speed that a latency means; None for a task without floating-point operations."""
        return self.flop / latency_s / 1e9 if self.flop else None

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


def estimated_latency(tasks: Iterable[Task]) -> float | None:
    """The run's estimate in seconds, of its chosen tasks; None until each of them has a valid trial."""
    return total(task.weighted_latency_s for task in tasks if task.chosen)


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

    @property
    def gflops(self) -> float | None:
        """Its speed in 10⁹ floating-point operations a second; None when its task has none."""
        return self.task.gflops_at(self.latency_s)
