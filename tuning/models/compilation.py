"""Compilations: a library built with a run's best records, the proof that it computes the right thing, and its benchmarks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.utils import timezone

from tuning.engines.wire.compiling import LIBRARY, MANIFEST, UNTUNED

from .fleet import Machine, is_shared
from .lifecycle import LeasedQuerySet, Measurement, deciding
from .project import seen_by
from .run import Run, first_of_free, measures_on
from .shapes import BatchDict, BenchmarkDict, CompilationDict, CoverageDict, LatencyDict, iso, username


class CompilationQuerySet(LeasedQuerySet["Compilation"]):
    def kept(self) -> CompilationQuerySet:
        """Compilations of runs that aren't deleted."""
        return self.filter(run__deleted_at__isnull=True)

    def seen_by(self, user: User | None) -> CompilationQuerySet:
        """Compilations of runs of the user's projects; all of them for None, the site itself."""
        return self.filter(seen_by(user, "run__project"))

    def shown(self) -> CompilationQuerySet:
        """Kept compilations with what `to_dict` reads."""
        return self.kept().select_related("run__network", "created_by").prefetch_related("benchmarks__created_by")

    def waiting_for(self, device: str, machine: Machine | None = None) -> CompilationQuerySet:
        """Compilations that wait to measure on the machine's device: that which tuned the run, or one like it."""
        rows = self.on_device().annotate(on=measures_on("run__")).filter(status=Compilation.Status.QUEUED, on=device)
        if machine is None or is_shared(device):
            return rows
        like = machine.among(Machine.everything.filter(runs__compilations__in=rows).distinct())
        return rows.filter(Q(run__machine__isnull=True) | Q(run__machine__in=like))

    def on_device(self) -> CompilationQuerySet:
        """Compilations that measure on a device, or wait to."""
        unfinished = (Compilation.Status.QUEUED, *Compilation.LIVE)
        return self.kept().filter(status__in=unfinished, stage__in=MEASURING)

    def forgotten(self) -> CompilationQuerySet:
        """Without those that have to wait for a device, or for others there."""
        unheard = super().forgotten().kept().select_related("run").annotate(on=measures_on("run__"))
        wanted = set(unheard.filter(stage__in=MEASURING).values_list("on", flat=True))
        first = first_of_free(wanted, self.waiting_for)
        return unheard.exclude(Q(stage__in=MEASURING) & ~Q(pk__in=first))


class Compilation(Measurement):
    """A library of a run's network. One job builds it; another, when the device is quiet, proves and benchmarks it: it is queued again in between."""

    class Stage(models.TextChoices):
        """What its next or current job does: build the library, with records that are chosen on the run's device or without; or prove it there."""

        BUILD = "build"
        CHOOSE = "choose"
        PROVE = "prove"

    class Source(models.TextChoices):
        """Which records: this run's, or for each workload the best of all runs of its project."""

        RUN = "run"
        LIBRARY = "library"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="compilations")
    source = models.CharField(max_length=10, choices=Source.choices, default=Source.RUN)
    imported_records = models.BooleanField(default=False, db_default=False)
    """Whether it may have records that were imported or streamed, which are then measured inside the network."""
    stage = models.CharField(max_length=6, choices=Stage.choices, default=Stage.BUILD)
    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, null=True, related_name="compilations")
    """Whose worker proves it, or did so last. Any may build it."""
    error = models.TextField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    """Who asked for the benchmark that is queued or running."""
    created_at = models.DateTimeField(auto_now_add=True)
    versions = models.JSONField(default=dict)
    """Of the packages that built it."""
    estimate_s = models.FloatField(null=True)
    """Σ latency of the record × weight over all tasks; null if a task has no record."""
    used = models.JSONField(default=list)
    """`tuning.engines.wire.compiling.Used` as JSON, one for each function that a record was applied to."""
    untuned = models.JSONField(default=list)
    """Names of the other functions."""
    chosen = models.JSONField(null=True)
    """`tuning.engines.wire.compiling.Chosen` as JSON; null if its records weren't chosen inside the network."""
    cuda_graphs = models.PositiveIntegerField(null=True)
    """How many the library captures; 0 before it is built. Null if each kernel is launched by itself, as on other targets."""
    inputs = models.JSONField(default=list)
    outputs = models.JSONField(default=list)
    batches = models.JSONField(default=list, db_default=[])
    """If the library takes any batch, each that it has functions for, the smallest first: `batch`, `run` whose records it has, `network`, `estimate_s`;
    once it is built, also what `tuning.engines.wire.compiling.BuiltBatch` has."""
    size = models.PositiveBigIntegerField(null=True)
    """Size of the library in bytes, once it is published."""
    sha256 = models.CharField(max_length=64, null=True)
    verified = models.BooleanField(null=True)
    max_abs_error = models.FloatField(null=True)
    max_rel_error = models.FloatField(null=True)
    tolerance = models.JSONField(null=True)

    objects = CompilationQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-pk")
        permissions = (("cancel_compilation", "Can cancel compilation"),)
        indexes = (models.Index(fields=("status", "stage")),)

    def __str__(self) -> str:
        return f"compilation {self.pk} of run {self.run_id}"

    @property
    def is_published(self) -> bool:
        """Whether there is a library to download."""
        return self.sha256 is not None

    @property
    def can_benchmark(self) -> bool:
        return self.is_published and self.status in self.ENDED

    @property
    def waits_for(self) -> str | None:
        """The device that it waits for while it is queued."""
        waits = self.status == self.Status.QUEUED and self.stage in MEASURING
        return self.device if waits else None

    @property
    def device(self) -> str:
        """The one that its library is measured on."""
        return self.run.measures_on

    @property
    def folder(self) -> Path:
        """Its files. The name has the time of creation because a new database starts again with id 1, perhaps next to old files."""
        return Path(settings.VAR) / "compilations" / f"{self.pk}-{self.created_at:%Y%m%dT%H%M%S.%f}"

    @property
    def unpublished(self) -> Path:
        """The folder in which its files are built, by a process that may leave anything there."""
        return self.folder / "building"

    @property
    def ready(self) -> Path:
        """The folder with copies of these files, until it becomes `artifact`. The process that built them can't write to it."""
        return self.folder / "ready"

    @property
    def artifact(self) -> Path:
        """The folder that appears, complete, when the build has succeeded."""
        return self.folder / "artifact"

    FILES = (LIBRARY, UNTUNED, MANIFEST)
    """Names of the published files. What else a compiler has left in its folder is dropped."""

    @property
    def library(self) -> Path:
        return self.artifact / LIBRARY

    @property
    def untuned_library(self) -> Path:
        """The library built without records, for comparison."""
        return self.artifact / UNTUNED

    @property
    def manifest(self) -> Path:
        return self.artifact / MANIFEST

    @property
    def console_log(self) -> Path:
        """Output of TVM, compilers and linker."""
        return self.folder / "console.log"

    @property
    def latest(self) -> Benchmark | None:
        return next(iter(self.benchmarks.all()), None)

    @property
    def coverage(self) -> CoverageDict | None:
        """None before it is built."""
        if not self.is_published:
            return None
        return _coverage(self.used, self.untuned)

    def _batch(self, one: dict[str, Any]) -> BatchDict:
        used, untuned = one.get("used", []), one.get("untuned", [])
        return {
            "batch": one["batch"],
            "run": one["run"],
            "estimate_s": one["estimate_s"],
            "coverage": _coverage(used, untuned) if self.is_published else None,
            "inputs": one.get("inputs", []),
            "outputs": one.get("outputs", []),
        }

    def without_result(self, status: str) -> str:
        """How it ends if it should end so: a library that was verified before stays finished without another benchmark."""
        return self.Status.FINISHED if self.verified is not None else status

    def remove_unpublished(self) -> None:
        """Remove what an unsuccessful build left behind."""
        for folder in (self.unpublished, self.ready):
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """What measures needs a quiet device."""
        with deciding(self.device, self.taker):
            yield self.stage not in MEASURING or Run.objects.device_is_free(self.device, self.taker)

    def _claimable(self) -> models.QuerySet[Compilation]:
        return super()._claimable().filter(stage=self.stage)

    def _on_abandoned(self) -> dict[str, Any]:
        if self.status == self.Status.CANCELLING:
            return {"to": self.Status.CANCELLED}
        again = "Benchmark" if self.is_published else "Compile"
        return {"to": self.Status.FAILED, "error": f"The worker stopped responding. {again} again."}

    def to_dict(self) -> CompilationDict:
        """Benchmarks are newest first."""
        latest = self.latest
        return {
            "id": self.pk,
            "run": self.run_id,
            "run_name": self.run.name,
            "network": self.run.tuned_network.name,
            "target": self.run.target,
            "device": self.device,
            "source": self.source,
            "imported_records": self.imported_records,
            "status": self.status,
            "stage": self.stage,
            "phase": self.phase,
            "progress": self.progress,
            "waits_for": self.waits_for,
            "error": self.error,
            "created_by": username(self.created_by),
            "created_at": self.created_at.isoformat(),
            "started_at": iso(self.started_at),
            "finished_at": iso(self.finished_at),
            "versions": self.versions,
            "coverage": self.coverage,
            "used": self.used,
            "chosen": self.chosen,
            "cuda_graphs": self.cuda_graphs if self.is_published else None,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "batches": [self._batch(one) for one in self.batches],
            "precision": self.run.rewrites.precision,
            "size": self.size,
            "sha256": self.sha256,
            "verified": self.verified,
            "max_abs_error": self.max_abs_error,
            "max_rel_error": self.max_rel_error,
            "tolerance": self.tolerance,
            "estimate_s": self.estimate_s,
            "measured_s": latest.median_s("tuned") if latest else None,
            "speedup": latest.speedup_over("untuned") if latest else None,
            "speedup_over_onnxruntime": latest.speedup_over("onnxruntime") if latest else None,
            "benchmarks": [benchmark.to_dict() for benchmark in self.benchmarks.all()],
        }


def _coverage(used: list[Any], untuned: list[str]) -> CoverageDict:
    return {"functions": len(used) + len(untuned), "tuned": len(used), "untuned": untuned}


MEASURING = (Compilation.Stage.CHOOSE, Compilation.Stage.PROVE)
"""The stages that hold the run's device."""


class Benchmark(models.Model):
    """The tuned library, the untuned one and, where installed, ONNX Runtime, measured in turn, round by round.

    Of a quantized model, also the model that it was made from, in ONNX Runtime.
    """

    compilation = models.ForeignKey(Compilation, on_delete=models.CASCADE, related_name="benchmarks")
    at = models.DateTimeField(default=timezone.now)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    rounds = models.JSONField()
    """By side (`Side`): the seconds of one inference in each round."""
    onnxruntime = models.CharField(max_length=30, null=True)
    """Version of ONNX Runtime, if it was measured."""
    without_onnxruntime = models.TextField(null=True)
    """Why ONNX Runtime wasn't measured."""
    profile = models.JSONField(null=True)
    """As `ProfileDict`; null if it isn't recorded."""
    batches = models.JSONField(default=list, db_default=[])
    """`tuning.engines.wire.compiling.ProvenBatch` as JSON, for each batch of a library that takes any. `rounds` are those of the run's own."""

    accuracy = models.JSONField(null=True)
    """As `AccuracyDict`; null if there was no float model to compare with."""

    class Meta:
        ordering = ("-at", "-pk")

    def __str__(self) -> str:
        return f"benchmark {self.pk} of compilation {self.compilation_id}"

    def median_s(self, side: str) -> float | None:
        """Seconds of one inference; None if this side wasn't measured."""
        return median(self.rounds[side]) if self.rounds.get(side) else None

    def speedup_over(self, side: str) -> float | None:
        """That side's median time as a multiple of the tuned library's; None if one of them wasn't measured."""
        tuned, other = self.median_s("tuned"), self.median_s(side)
        return other / tuned if tuned and other else None

    def latency(self, side: str) -> LatencyDict | None:
        return _latency(self.rounds.get(side))

    def to_dict(self) -> BenchmarkDict:
        return {
            "id": self.pk,
            "at": self.at.isoformat(),
            "created_by": username(self.created_by),
            "rounds": len(self.rounds["tuned"]),
            "tuned": self.latency("tuned"),
            "untuned": self.latency("untuned"),
            "onnxruntime": self.latency("onnxruntime"),
            "float_model": self.latency("float_model"),
            "onnxruntime_version": self.onnxruntime,
            "without_onnxruntime": self.without_onnxruntime,
            "speedup": self.speedup_over("untuned"),
            "speedup_over_onnxruntime": self.speedup_over("onnxruntime"),
            "speedup_over_float_model": self.speedup_over("float_model"),
            "accuracy": self.accuracy,
            "profile": self.profile,
            "batches": [
                {
                    "batch": one["batch"],
                    "tuned": _latency(one["rounds"].get("tuned")),
                    "untuned": _latency(one["rounds"].get("untuned")),
                    "onnxruntime": _latency(one["rounds"].get("onnxruntime")),
                    "without_onnxruntime": one["without_onnxruntime"],
                    "max_abs_error": one["max_abs_error"],
                    "max_rel_error": one["max_rel_error"],
                }
                for one in self.batches
            ],
        }


def _latency(seconds: list[float] | None) -> LatencyDict | None:
    if not seconds:
        return None
    std_s = pstdev(seconds) if len(seconds) > 1 else None
    return {
        "rounds": len(seconds),
        "mean_s": fmean(seconds),
        "median_s": median(seconds),
        "max_s": max(seconds),
        "min_s": min(seconds),
        "std_s": std_s,
        "spread": None if std_s is None else std_s / median(seconds),
    }
