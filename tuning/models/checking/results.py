"""What regression checks have found, and at what those are that go on."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q

from tuning.models.compilation import Benchmark, Compilation
from tuning.models.project import seen_by
from tuning.models.run import Run
from tuning.models.shapes import iso, username

from .checks import CheckResultDict, RegressionCheck


class ResultQuerySet(models.QuerySet["CheckResult"]):
    def seen_by(self, user: User | None) -> ResultQuerySet:
        return self.filter(seen_by(user, "of__project"))

    def going(self) -> ResultQuerySet:
        """Those that haven't ended."""
        return self.filter(verdict="")

    def good(self) -> ResultQuerySet:
        """Those that may be part of a base."""
        return self.filter(verdict__in=CheckResult.GOOD)


class CheckResult(models.Model):
    """A check that was done, or is being done, once."""

    class Stage(models.TextChoices):
        """What it waits for: to begin, the run, or the library's benchmark."""

        BEGIN = "begin"
        TUNE = "tune"
        MEASURE = "measure"

    class Verdict(models.TextChoices):
        """`first` has nothing to be compared with. A skipped one was due while the one before it went on."""

        FIRST = "first"
        BETTER = "better"
        WITHIN_NOISE = "within noise"
        REGRESSION = "regression"
        FAILED = "failed"
        SKIPPED = "skipped"

    GOOD: ClassVar[tuple[str, ...]] = (Verdict.FIRST, Verdict.BETTER, Verdict.WITHIN_NOISE)

    of = models.ForeignKey(RegressionCheck, on_delete=models.CASCADE, related_name="results")
    due_at = models.DateTimeField(null=True)
    """Null if somebody asked for it."""
    begun_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    stage = models.CharField(max_length=10, choices=Stage.choices, default=Stage.BEGIN)
    verdict = models.CharField(max_length=12, choices=Verdict.choices, default="")
    """Empty while it goes on."""
    error = models.TextField(null=True)
    """Why it has failed or was skipped."""
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, related_name="+")
    """The run that it has tuned, if it tunes."""
    compilation = models.ForeignKey(Compilation, on_delete=models.SET_NULL, null=True, related_name="+")
    known = models.BigIntegerField(null=True)
    """The id of the library's latest benchmark before, which isn't its own."""
    benchmark = models.ForeignKey(Benchmark, on_delete=models.SET_NULL, null=True, related_name="+")
    machine = models.CharField(max_length=63, default="")
    """The name of the one that measured it, if the site knows it."""
    rounds = models.JSONField(default=list)
    """Seconds of one inference in each round: kept here, since libraries are removed with their runs."""
    versions = models.JSONField(default=dict)
    """Of the packages that built the library."""
    latency_s = models.FloatField(null=True)
    spread = models.FloatField(null=True)
    base_s = models.FloatField(null=True)
    change = models.FloatField(null=True)
    noise = models.FloatField(null=True)

    objects = ResultQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)
        constraints = (
            models.UniqueConstraint(fields=("of",), condition=Q(verdict=""), name="one_result_of_a_check_goes_on"),
        )

    def __str__(self) -> str:
        return f"result {self.pk} of {self.of}"

    @property
    def goes_on(self) -> bool:
        return not self.verdict

    def move(self, **values: Any) -> bool:
        """Change it if it still goes on in the same stage; return whether it did. This instance then has the values."""
        moved = CheckResult.objects.filter(pk=self.pk, verdict="", stage=self.stage).update(**values) == 1
        if moved:
            self.refresh_from_db()
        return moved

    def to_dict(self) -> CheckResultDict:
        return {
            "id": self.pk,
            "check": self.of_id,
            "due_at": iso(self.due_at),
            "begun_at": self.begun_at.isoformat(),
            "ended_at": iso(self.ended_at),
            "asked_by": username(self.asked_by),
            "stage": self.stage,
            "verdict": self.verdict or None,
            "error": self.error,
            "run": self.run_id,
            "compilation": self.compilation_id,
            "benchmark": self.benchmark_id,
            "machine": self.machine or None,
            "versions": self.versions,
            "latency_s": self.latency_s,
            "spread": self.spread,
            "rounds": len(self.rounds),
            "base_s": self.base_s,
            "change": self.change,
            "noise": self.noise,
        }
