"""The columns that a run's tasks share with tasks extracted before a run."""

from __future__ import annotations

from typing import Any

import msgspec
from django.db import models

from tuning.engines.wire.protocol import TaskInfo


class Subgraph(models.Model):
    """One fused subgraph of a network, as the engine numbers it."""

    index = models.PositiveIntegerField()
    name = models.CharField(max_length=500)
    weight = models.PositiveIntegerField()
    flop = models.FloatField()
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
    def described(info: TaskInfo) -> dict[str, Any]:
        """The values of these columns for a task that an engine described."""
        told = msgspec.to_builtins(info)
        return {field.name: told[field.name] for field in Subgraph._meta.fields}
