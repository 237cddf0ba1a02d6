"""What can be tuned: built-in networks and models of one's own."""

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
    """Digest of JSON values, which can't be unique themselves on every database."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class NetworkQuerySet(models.QuerySet["Network"]):
    """Reads of networks."""

    def uploaded(self) -> NetworkQuerySet:
        """Models of one's own, by their names."""
        return self.exclude(kind=Network.Kind.BUILTIN).order_by("name")

    def named(self, name: str, options: dict[str, Any]) -> Network | None:
        """The built-in network of these options, or else the model of one's own, if it is stored."""
        return self.filter(fingerprint=fingerprint(name, options)).first() or self.uploaded().filter(name=name).first()

    def with_runs(self) -> NetworkQuerySet:
        """Each with `run_count`, of those that aren't deleted."""
        return self.annotate(run_count=Count("runs", filter=Q(runs__deleted_at__isnull=True)))


class Network(models.Model):
    """What is tuned: a built-in network with its options, or a model of one's own with its dimensions."""

    class Kind(models.TextChoices):
        """Where it comes from; of an uploaded one, the format of its file."""

        BUILTIN = "builtin", "built-in"
        ONNX = "onnx", "ONNX"
        IRMODULE = "irmodule", "IRModule"

    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.BUILTIN)
    name = models.CharField(max_length=100)
    options = models.JSONField(default=dict)
    """Of a built-in network."""
    fingerprint = models.CharField(max_length=64, unique=True)
    """Digest of name and options, or of file and dimensions."""
    sha256 = models.CharField(max_length=64, default="")
    """Of the uploaded file: its name on disk."""
    file_name = models.CharField(max_length=255, default="")
    """As its user called it: shown, never opened."""
    size = models.PositiveBigIntegerField(null=True)
    """Bytes of the file."""
    dims = models.JSONField(default=dict)
    """Values of the dimensions that the file leaves open."""
    inputs = models.JSONField(default=list)
    """Name, shape and dtype of each."""
    parameters = models.PositiveBigIntegerField(null=True)
    operators = models.JSONField(default=dict)
    """How often each occurs."""
    flop = models.FloatField(null=True)
    """Of one execution, over all tasks; not recorded until it was inspected."""
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
        """Whether it is one's own model."""
        return self.kind != self.Kind.BUILTIN

    @property
    def file(self) -> Path:
        """Where an uploaded model lies, under a name that we made."""
        return networks_dir() / f"{self.sha256}{SUFFIX[self.kind]}"

    def spec(self) -> NetworkSpec:
        """As the engine takes it."""
        if not self.is_uploaded:
            return NetworkSpec(self.name, self.options)
        file = msgspec.convert({"format": self.kind, "path": str(self.file), "dims": self.dims}, ModelFile)
        return NetworkSpec(self.name, file=file)

    def to_dict(self) -> NetworkDetail:
        """The network as the API shows it."""
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
    """Where uploaded models lie."""
    return Path(settings.VAR) / "networks"
