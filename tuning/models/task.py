"""A run's tasks, their alerts and their best records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from django.contrib.auth.models import User
from django.db import models
from django.db.models import Case, F, Max, Min, Q, Value, When, Window
from django.db.models.functions import Coalesce, Greatest, RowNumber
from django.utils.functional import cached_property

from tuning.estimate import total, weighted
from tuning.noise import noise
from tuning.records import why_refused

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
    IMPORTED = 2, "imported"
    """Claimed by a log or a script: this site measured nothing."""
    SYNTHETIC = 3, "synthetic"
    """Nothing was measured: the run is synthetic."""


def provenance(run: str, tvm: str | None) -> Case:
    """The `Provenance` of a run's latencies, as an expression; `run` is the lookup path to the run, `tvm` the installed version."""
    return Case(
        When(**{f"{run}__synthetic": True}, then=Value(Provenance.SYNTHETIC)),
        When(~Q(**{f"{run}__origin": Run.Origin.LAUNCHED}), then=Value(Provenance.IMPORTED)),
        When(**{f"{run}__versions__apache-tvm": tvm or ""}, then=Value(Provenance.INSTALLED_TVM)),
        default=Value(Provenance.OTHER_TVM),
        output_field=models.IntegerField(),
    )


PROMISED_S = Coalesce("confirmed_latency_s", "best_latency_s")
"""The latency that a task's best record promises, as an expression; see `Task.promised`."""


class TaskQuerySet(models.QuerySet["Task"]):
    def counting(self) -> TaskQuerySet:
        """Of MetaSchedule's tasks that compute the same by different algorithms, only the fastest. Of AutoTVM's, TVM itself builds that."""
        return self.exclude(weight=0, run__engine="meta_schedule")

    def kept(self) -> TaskQuerySet:
        """Tasks of runs that aren't deleted."""
        return self.filter(run__deleted_at__isnull=True)

    def seen_by(self, user: User | None) -> TaskQuerySet:
        """Tasks of runs of the user's projects; all of them for None, the site itself."""
        return self.filter(seen_by(user, "run__project"))

    def measured(self) -> TaskQuerySet:
        """Tasks with a valid trial."""
        return self.filter(best_latency_s__isnull=False)

    def cold_bytes(self) -> tuple[int, int] | None:
        """The least and the most of all; None if none tells it."""
        least, most = self.aggregate(least=Min("cold_bytes"), most=Max("cold_bytes")).values()
        return None if least is None else (least, most)

    def best_known(self, tvm: str | None) -> TaskQuerySet:
        """For each workload and target, the task with the best latency: that of the most trustworthy provenance, then the lowest."""
        place = Window(
            RowNumber(),
            partition_by=[F("workload_hash"), F("run__target_fingerprint")],
            order_by=[provenance("run", tvm), PROMISED_S, F("pk")],
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
    computes = models.CharField(max_length=64, blank=True, default="", db_default="")
    """The workload hash of the network's task that it computes by another algorithm; empty for the network's own."""
    workload = models.JSONField(null=True)
    """What the log says of an imported task's computation, in its engine's own terms; null for one that the site extracted."""
    space = models.PositiveBigIntegerField(null=True)
    """How many candidates its design space has; null if that isn't known."""
    cold_bytes = models.PositiveBigIntegerField(null=True)
    """How many bytes an inference touches between two uses of its weights, these among them, if its trials were measured with weights as cold as there.
    Null if they were in the caches, and in runs of earlier versions: then it is its run's number."""
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
    def function(self) -> str:
        """The workload hash of the network's own task for what it computes, by whichever algorithm."""
        return self.computes or self.workload_hash

    @property
    def is_spare(self) -> bool:
        """Whether another task computes the same faster, by another algorithm, so that this one is no part of the estimate."""
        return self.weight == 0

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
    def promised(self) -> tuple[int | None, float | None]:
        """The trial of its best record, and the latency in seconds that it promises; see `RecordQuerySet.best_first`."""
        if self.confirmed_latency_s is not None:
            return self.confirmed_trial, self.confirmed_latency_s
        return self.best_trial, self.best_latency_s

    def unconfirm(self) -> None:
        """It has a new best trial, which may be a lucky one."""
        self.confirmed_latency_s = self.confirmed_trial = self.confirmed_times = self.confirmed_noise = None

    def confirm(self, measured: Mapping[int, Sequence[float]]) -> None:
        """Whose record is best, by the medians of what several were measured to be again, by trial."""
        trial = min(measured, key=lambda one: (median(measured[one]), one))
        latencies = measured[trial]
        self.confirmed_trial, self.confirmed_latency_s = trial, median(latencies)
        self.confirmed_times, self.confirmed_noise = len(latencies), noise(latencies)

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
        if everyone_had_a_turn and not self.is_spare:
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
            "cold_bytes": self.cold_bytes,
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


def of_network(tasks: Iterable[Task]) -> list[Task]:
    """Of a run's tasks that compute the same by different algorithms, only the one that counts."""
    found = list(tasks)
    counting = {task.function for task in found if not task.is_spare}
    return [task for task in found if not task.is_spare or task.function not in counting]


def estimated_latency(tasks: Iterable[Task]) -> float | None:
    """The run's estimate in seconds, of its chosen tasks; None until each of them has a valid trial, or if a weight isn't recorded.

    A task with the weight 0 is no part of it.
    """
    return total(task.weighted_latency_s for task in tasks if task.chosen and not task.is_spare)


def confirmed_latency(tasks: Iterable[Task]) -> float | None:
    """As `estimated_latency`, of confirmed latencies; None unless all of these tasks are confirmed."""
    counting = (task for task in tasks if task.chosen and not task.is_spare)
    return total(weighted(task.confirmed_latency_s, task.weight) for task in counting)


class RecordQuerySet(models.QuerySet["Record"]):
    def best_first(self, *before: Any) -> RecordQuerySet:
        """The one rule by which a record is better than another of the same workload: pages, downloads, compilation and warm start go by it.

        What counts is `Record.promised_s`; among equals, the record that won when its task was confirmed comes first. `before` are expressions
        to order by before that.
        """
        confirmed, won = F("task__confirmed_latency_s"), Q(trial=F("task__confirmed_trial"))
        promised_s = Case(
            When(task__confirmed_latency_s__isnull=True, then=F("latency_s")),
            When(won, then=confirmed),
            default=Greatest("latency_s", confirmed),
        )
        behind = Case(When(won, then=Value(0)), default=Value(1))
        return self.order_by(*before, promised_s, behind, "latency_s", "trial", "pk")


class Record(models.Model):
    """One of a task's best trials as the engine serializes it."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="records")
    trial = models.PositiveIntegerField()
    """Its number in the run."""
    latency_s = models.FloatField()
    text = models.TextField()

    objects = RecordQuerySet.as_manager()

    class Meta:
        ordering = ("latency_s", "trial")
        constraints = (models.UniqueConstraint(fields=("task", "trial"), name="record_once_a_trial"),)

    def __str__(self) -> str:
        return f"record of trial {self.trial}"

    @cached_property
    def trouble(self) -> str | None:
        """Why it can't be used, whenever it was stored; None if it can. Its task and run are read."""
        return why_refused(self.task.run.engine, self.text)

    @property
    def promised_s(self) -> float:
        """The latency that it promises: the confirmed one, or else its only measurement.

        What lost against the confirmed one isn't faster, whatever its only measurement was.
        """
        confirmed_s = self.task.confirmed_latency_s
        if confirmed_s is None:
            return self.latency_s
        return confirmed_s if self.trial == self.task.confirmed_trial else max(self.latency_s, confirmed_s)

    @property
    def gflops(self) -> float | None:
        """Its speed in 10⁹ floating-point operations per second; None for a task that has no such operations."""
        return self.task.gflops_at(self.latency_s)
