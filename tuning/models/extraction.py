"""Extractions: a network's tasks for one target, before anything is tuned."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from django.conf import settings
from django.contrib.auth.models import User
from django.db import models

from tuning.engines.wire.protocol import AnyTaskInfo

from .lifecycle import Leased, LeasedQuerySet
from .network import Network, fingerprint
from .project import seen_or_builtin
from .shapes import ExtractedTaskDict, ExtractionDict, iso


class Subgraph(models.Model):
    """One fused subgraph of a network, as the engine numbers it."""

    index = models.PositiveIntegerField()
    name = models.CharField(max_length=500)
    weight = models.PositiveIntegerField(null=True)
    """Null if it isn't recorded, as `flop`."""
    flop = models.FloatField(null=True)
    """Of one execution."""
    workload_hash = models.CharField(max_length=64)
    args = models.JSONField(default=list)
    tensorir = models.TextField(default="")

    class Meta:
        abstract = True
        ordering = ("index",)

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def described(info: AnyTaskInfo) -> dict[str, Any]:
        """The values of these columns for a task that an engine described."""
        told = {**msgspec.to_builtins(info), "tensorir": info.tensorir or ""}
        return {field.name: told[field.name] for field in Subgraph._meta.fields}


class ExtractionQuerySet(LeasedQuerySet["Extraction"]):
    def seen_by(self, user: User | None) -> ExtractionQuerySet:
        """Those of built-in networks and of the user's projects' models; all of them for None, the site itself."""
        return self.filter(seen_or_builtin(user, "network__project"))


class Extraction(Leased):
    """One network's tasks for one target, or the reason why there are none."""

    class Status(models.TextChoices):
        """`queued → running → finished | failed`. A failed extraction is queued again when somebody asks for its tasks."""

        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"

    WAITING: ClassVar[tuple[str, ...]] = (Status.QUEUED, Status.RUNNING)

    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="extractions")
    target = models.JSONField()
    """As resolved."""
    fingerprint = models.CharField(max_length=64)
    """Digest of the target: not every database can compare JSON."""
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.QUEUED)
    step = models.CharField(max_length=100, default="")
    """What the job is doing, in words."""
    error = models.TextField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    objects = ExtractionQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-pk")
        constraints = (models.UniqueConstraint(fields=("network", "fingerprint"), name="one_extraction_a_target"),)
        indexes = (models.Index(fields=("status",)),)

    def __str__(self) -> str:
        return f"tasks of {self.network_id} for {self.fingerprint[:8]}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep the fingerprint in line with the target."""
        self.fingerprint = fingerprint(self.target)
        super().save(*args, **kwargs)

    @property
    def is_waiting(self) -> bool:
        return self.status in self.WAITING

    def _on_claim(self) -> dict[str, Any]:
        return {**super()._on_claim(), "step": "Starting"}

    def _on_end(self) -> dict[str, Any]:
        return {**super()._on_end(), "step": ""}

    def _on_requeue(self) -> dict[str, Any]:
        return {**super()._on_requeue(), "step": ""}

    def _on_abandoned(self) -> dict[str, Any]:
        return {"to": self.Status.FAILED, "error": "The worker stopped responding. Extract the tasks again."}

    def to_dict(self) -> ExtractionDict:
        return {
            "id": self.pk,
            "network": self.network.name,
            "target": self.target,
            "status": self.status,
            "step": self.step,
            "error": self.error,
            "created_at": self.created_at.isoformat(),
            "finished_at": iso(self.finished_at),
            "tasks": [task.to_dict() for task in self.tasks.all()],
        }


class ExtractedTask(Subgraph):
    """A task, with the index that it would have in a run for this target."""

    extraction = models.ForeignKey(Extraction, on_delete=models.CASCADE, related_name="tasks")

    class Meta(Subgraph.Meta):
        constraints = (models.UniqueConstraint(fields=("extraction", "index"), name="task_index_once_an_extraction"),)

    @property
    def total_flop(self) -> float:
        """Floating-point operations of all its occurrences."""
        return (self.flop or 0.0) * (self.weight or 0)

    def to_dict(self) -> ExtractedTaskDict:
        return {
            "index": self.index,
            "name": self.name,
            "weight": self.weight,
            "flop": self.flop,
            "workload_hash": self.workload_hash,
            "args": self.args,
            "tensorir": self.tensorir,
        }
