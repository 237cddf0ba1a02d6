"""A run's tasks, their alerts and their best records."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import User
from django.db import models
from django.db.models import Case, F, Value, When, Window
from django.db.models.functions import RowNumber

from tuning.estimate import total, weighted

from .extraction import Subgraph
from .project import seen_by
from .run import Run
from .shapes import Alert, TaskDict

ALARMING_FAILURES = 16
"""A task gets an alert when its first trials, this many, all failed."""


class Provenance(models.IntegerChoices):
    """Where a latency comes from, the most trustworthy first. The labels are the values of `doubt` in the API."""

    INSTALLED_TVM = 0, "none"
    OTHER_TVM = 1, "other_tvm"
    """Or one that wasn't recorded."""
    SYNTHETIC = 2, "synthetic"
    """Nothing was measured: the run is synthetic."""


def provenance(run: str, tvm: str | None) -> Case:
    """The `Provenance` of a run's latencies, as an expression; `run` is the lookup path to the run, `tvm` the installed version."""
    return Case(
        When(**{f"{run}__synthetic": True}, then=Value(Provenance.SYNTHETIC)),
        When(**{f"{run}__versions__apache-tvm": tvm or ""}, then=Value(Provenance.INSTALLED_TVM)),
        default=Value(Provenance.OTHER_TVM),
        output_field=models.IntegerField(),
    )


class TaskQuerySet(models.QuerySet["Task"]):
    def kept(self) -> TaskQuerySet:
        """Tasks of runs that aren't deleted."""
        return self.filter(run__deleted_at__isnull=True)

    def seen_by(self, user: User | None) -> TaskQuerySet:
        """Tasks of runs of the user's projects; all of them for None, the site itself."""
        return self.filter(seen_by(user, "run__project"))

    def measured(self) -> TaskQuerySet:
        """Tasks with a valid trial."""
        return self.filter(best_latency_s__isnull=False)

    def best_known(self, tvm: str | None) -> TaskQuerySet:
        """For each workload and target, the task with the best latency: that of the most trustworthy provenance, then the lowest."""
        place = Window(
            RowNumber(),
            partition_by=[F("workload_hash"), F("run__target_fingerprint")],
            order_by=[provenance("run", tvm), F("best_latency_s"), F("pk")],
        )
        # Ranking keys only lets the database read the index alone: rows are long.
        first = self.measured().annotate(place=place).filter(place=1).values("pk")
        return Task.objects.filter(pk__in=first)


class Task(Subgraph):
    """One fused subgraph of a run's network, with its counters."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tasks")
    chosen = models.BooleanField(default=True)
    """Whether the run tunes it."""
    flop_derived = models.BooleanField(default=False, db_default=False)
    """Whether `flop` was derived from the arguments, because it isn't recorded."""
    workload = models.JSONField(null=True)
    """What the log says of an imported task's computation, in its engine's own terms; null for one that the site extracted."""
    space = models.PositiveBigIntegerField(null=True)
    """How many candidates its design space has; null if that isn't known."""
    plateaued = models.BooleanField(default=False)
    """It stopped improving, by the run's option `plateau`."""
    trials = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    best_latency_s = models.FloatField(null=True)
    best_trial = models.PositiveIntegerField(null=True)
    confirmed_latency_s = models.FloatField(null=True)
    """The median of its confirmed record's measurements. Null, like the next three, as long as its best trial isn't confirmed."""
    confirmed_trial = models.PositiveIntegerField(null=True)
    """Whose record won when the best ones were measured again in turn."""
    confirmed_times = models.PositiveSmallIntegerField(null=True)
    """How often that was measured."""
    confirmed_noise = models.FloatField(null=True)
    """How far its measurements lay apart; null if there were too few to tell."""

    objects = TaskQuerySet.as_manager()

    class Meta(Subgraph.Meta):
        constraints = (models.UniqueConstraint(fields=("run", "index"), name="task_index_once_a_run"),)
        # Covers all that the library ranks by, since rows are long.
        indexes = (models.Index(fields=("workload_hash", "run", "best_latency_s", "confirmed_latency_s")),)

    @property
    def gflops(self) -> float | None:
        """The best trial's speed in 10⁹ floating-point operations per second.

        None without a valid trial or any such operation, and if a simulator ran them: its time isn't its target's.
        """
        return self.gflops_at(self.best_latency_s) if self.best_latency_s else None

    @property
    def tried(self) -> float | None:
        """The share of its design space that was tried, from 0 to 1."""
        return self.trials / self.space if self.space else None

    @property
    def weighted_latency_s(self) -> float | None:
        """The task's part of the estimate."""
        return weighted(self.best_latency_s, self.weight)

    def gflops_at(self, latency_s: float) -> float | None:
        """As `gflops`, for a given latency."""
        return self.flop / latency_s / 1e9 if self.flop and not self.run.simulator else None

    def alert(self, *, everyone_had_a_turn: bool, tried_again: bool) -> Alert | None:
        """What users should know of the task now, if anything. `tried_again`: this site goes on with it."""
        if self.trials == 0 or self.trials > self.failed:
            return None
        if self.trials >= ALARMING_FAILURES:
            return {
                "kind": "all_failed",
                "task": self.index,
                "message": f"Task {self.index} {self.name}: all of its {self.trials:,} trials failed.",
            }
        if everyone_had_a_turn:
            hope = " It is tried again while the budget lasts." if tried_again else ""
            return {
                "kind": "starved",
                "task": self.index,
                "message": f"Task {self.index} {self.name} has no valid trial, so there is no estimate.{hope}",
            }
        return None

    def to_dict(self) -> TaskDict:
        return {
            "index": self.index,
            "name": self.name,
            "weight": self.weight,
            "flop": self.flop,
            "flop_derived": self.flop_derived,
            "args": self.args,
            "space": self.space,
            "trials": self.trials,
            "failed": self.failed,
            "best_latency_s": self.best_latency_s,
            "best_trial": self.best_trial,
            "gflops": self.gflops,
            "confirmed_latency_s": self.confirmed_latency_s,
            "confirmed_trial": self.confirmed_trial,
            "confirmed_times": self.confirmed_times,
            "confirmed_noise": self.confirmed_noise,
            "chosen": self.chosen,
            "plateaued": self.plateaued,
        }


def estimated_latency(tasks: Iterable[Task]) -> float | None:
    """The run's estimate in seconds, of its chosen tasks; None until each of them has a valid trial, or if a weight isn't recorded."""
    return total(task.weighted_latency_s for task in tasks if task.chosen)


class Record(models.Model):
    """One of a task's best trials as the engine serializes it."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="records")
    trial = models.PositiveIntegerField()
    """Its number in the run."""
    latency_s = models.FloatField()
    text = models.TextField()

    class Meta:
        ordering = ("latency_s", "trial")
        constraints = (models.UniqueConstraint(fields=("task", "trial"), name="record_once_a_trial"),)

    def __str__(self) -> str:
        return f"record of trial {self.trial}"

    @property
    def gflops(self) -> float | None:
        """Its speed in 10⁹ floating-point operations per second; None for a task that has no such operations."""
        return self.task.gflops_at(self.latency_s)
