"""Networks: the built-in ones, and uploaded models."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.db import models
from django.db.models import Count, Q

from tuning.engines.wire.protocol import ModelFile, NetworkSpec

from .shapes import NetworkDetail, iso, username

SUFFIX = {"onnx": ".onnx", "irmodule": ".json"}


def fingerprint(*parts: Any) -> str:
    """Digest of JSON values, for unique constraints: not every database can compare JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class NetworkQuerySet(models.QuerySet["Network"]):
    def uploaded(self) -> NetworkQuerySet:
        """Uploaded models by name."""
        return self.exclude(kind=Network.Kind.BUILTIN).order_by("name")

    def named(self, name: str, options: dict[str, Any]) -> Network | None:
        """The built-in network with these options, or else the uploaded model of this name; None if neither is stored."""
        return self.filter(fingerprint=fingerprint(name, options)).first() or self.uploaded().filter(name=name).first()

    def with_runs(self) -> NetworkQuerySet:
        """Annotate `run_count`, the number of runs that aren't deleted."""
        return self.annotate(run_count=Count("runs", filter=Q(runs__deleted_at__isnull=True)))


class Network(models.Model):
    """A built-in network with its options, or an uploaded model with its dimensions."""

    class Kind(models.TextChoices):
        """Built in, or the format of the uploaded file."""

        BUILTIN = "builtin", "built-in"
        ONNX = "onnx", "ONNX"
        IRMODULE = "irmodule", "IRModule"

    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.BUILTIN)
    name = models.CharField(max_length=100)
    options = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=64, unique=True)
    """Digest of name and options, or of file and dimensions."""
    sha256 = models.CharField(max_length=64, default="")
    """Digest of the uploaded file, and its name on disk."""
    file_name = models.CharField(max_length=255, default="")
    """The name that the file had when it was uploaded. It is shown, and never used as a path."""
    size = models.PositiveBigIntegerField(null=True)
    """Size of the file in bytes."""
    dims = models.JSONField(default=dict)
    """The values chosen for dimensions that the file leaves open."""
    inputs = models.JSONField(default=list)
    """Name, shape and dtype of each input."""
    parameters = models.PositiveBigIntegerField(null=True)
    operators = models.JSONField(default=dict)
    """Number of occurrences by operator."""
    flop = models.FloatField(null=True)
    """Floating-point operations of one inference; null until the network was inspected."""
    uploaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    uploaded_at = models.DateTimeField(null=True)

    objects = NetworkQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("name",), condition=~Q(kind="builtin"), name="one_uploaded_network_of_a_name"
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_uploaded(self) -> bool:
        return self.kind != self.Kind.BUILTIN

    @property
    def file(self) -> Path:
        """The uploaded model, under a name of our making."""
        return networks_dir() / f"{self.sha256}{SUFFIX[self.kind]}"

    def spec(self) -> NetworkSpec:
        if not self.is_uploaded:
            return NetworkSpec(self.name, self.options)
        file = msgspec.convert({"format": self.kind, "path": str(self.file), "dims": self.dims}, ModelFile)
        return NetworkSpec(self.name, file=file)

    def to_dict(self) -> NetworkDetail:
        return {
            "id": self.pk,
            "name": self.name,
            "kind": self.kind,
            "options": self.options,
            "dims": self.dims,
            "file_name": self.file_name or None,
            "size": self.size,
            "sha256": self.sha256 or None,
            "inputs": self.inputs,
            "parameters": self.parameters,
            "operators": self.operators,
            "flop": self.flop,
            "uploaded_by": username(self.uploaded_by),
            "uploaded_at": iso(self.uploaded_at),
        }


def networks_dir() -> Path:
    return Path(settings.VAR) / "networks"
