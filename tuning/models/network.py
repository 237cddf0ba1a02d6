"""Networks: the built-in ones, and uploaded models."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Count, Q

from tuning.engines.wire.protocol import ModelFile, NetworkSpec
from tuning.storage import store

from .project import Project, seen_by
from .shapes import NetworkBatchDict, NetworkDetail, SourceDict, UploadedDict, iso, username

SUFFIX = {"onnx": ".onnx", "irmodule": ".json"}
DEQUANTIZE = "DequantizeLinear"
"""The operator that every quantized ONNX file has."""


def fingerprint(*parts: Any) -> str:
    """Digest of JSON values, for unique constraints: not every database can compare JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Batches(NamedTuple):
    """A network's batch, and the networks that are the same for others."""

    own: int
    others: dict[int, Network]


class NetworkQuerySet(models.QuerySet["Network"]):
    def seen_by(self, user: User | None) -> NetworkQuerySet:
        """The models of the user's projects, and built-in networks as their runs or an extraction have them; None sees all.

        Which options other projects' runs have is theirs to know.
        """
        seen = seen_by(user)
        if not seen:
            return self
        used = Network.objects.filter(seen_by(user, "runs__project")).values("pk")
        extracted = Network.objects.filter(extractions__isnull=False).values("pk")
        return self.filter(seen | Q(project__isnull=True) & (Q(pk__in=used) | Q(pk__in=extracted)))

    def uploaded(self) -> NetworkQuerySet:
        """Uploaded models by name."""
        return self.filter(kind__in=SUFFIX).order_by("name")

    def called(self, name: str, project: Project) -> Network:
        """The project's network of this name. If there is none it is made, and nothing but its name is known."""
        known = {"kind": Network.Kind.NAMED, "fingerprint": fingerprint("named", name)}
        return self.get_or_create(project=project, name=name, defaults=known)[0]

    def named(self, name: str, options: dict[str, Any], project: Project) -> Network | None:
        """The built-in network with these options, or else the project's model of this name; None if neither is stored."""
        builtin = self.filter(project__isnull=True, fingerprint=fingerprint(name, options)).first()
        return builtin or self.filter(project=project, name=name, kind__in=SUFFIX).first()

    def with_runs(self, user: User | None) -> NetworkQuerySet:
        """Annotate `run_count`, the number of the user's runs that aren't deleted."""
        return self.annotate(
            run_count=Count("runs", filter=Q(runs__deleted_at__isnull=True) & seen_by(user, "runs__project"))
        )


class Network(models.Model):
    """A built-in network with its options, or an uploaded model with its dimensions."""

    class Kind(models.TextChoices):
        """Built in, or the format of the uploaded file; `named` is one of which only the name is known, from a log."""

        BUILTIN = "builtin", "built-in"
        ONNX = "onnx", "ONNX"
        IRMODULE = "irmodule", "IRModule"
        NAMED = "named", "known by name"

    project = models.ForeignKey(Project, on_delete=models.PROTECT, null=True, related_name="networks")
    """Null for a built-in network, which is everybody's."""
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.BUILTIN)
    name = models.CharField(max_length=100)
    options = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=64)
    """Digest of name and options, or of file and dimensions: a project has each model once."""
    sha256 = models.CharField(max_length=64, default="")
    """Digest of the file that is read, and its name on disk: the uploaded one, or what it was converted to."""
    file_name = models.CharField(max_length=255, default="")
    """The name that the file had when it was uploaded. It is shown, and never used as a path."""
    size = models.PositiveBigIntegerField(null=True)
    """Size of the file that is read, in bytes."""
    source = models.JSONField(null=True)
    """What an ONNX file was converted from: `shapes.SourceDict`, or null if it was uploaded as it is."""
    dims = models.JSONField(default=dict)
    """The values chosen for dimensions that the file leaves open."""
    inputs = models.JSONField(default=list)
    """Name, shape and dtype of each input."""
    parameters = models.PositiveBigIntegerField(null=True)
    operators = models.JSONField(default=dict)
    """Number of occurrences by operator."""
    float_model = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="quantized")
    """The model that a quantized one was made from, as far as its users said so."""
    flop = models.FloatField(null=True)
    """Floating-point operations of one inference; null until the network was inspected."""
    uploaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    uploaded_at = models.DateTimeField(null=True)

    objects = NetworkQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("fingerprint",), condition=Q(project__isnull=True), name="one_builtin_network_of_a_kind"
            ),
            models.UniqueConstraint(fields=("project", "fingerprint"), name="one_model_a_project"),
            models.UniqueConstraint(fields=("project", "name"), name="one_model_of_a_name_a_project"),
            models.CheckConstraint(
                condition=Q(kind="builtin", project__isnull=True) | (~Q(kind="builtin") & Q(project__isnull=False)),
                name="uploaded_models_have_a_project",
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_uploaded(self) -> bool:
        return self.kind in SUFFIX

    @property
    def uploaded_file(self) -> UploadedDict:
        """Size in bytes and SHA-256 of what its user uploaded."""
        given = self.source or {"size": self.size, "sha256": self.sha256}
        return {"size": given["size"], "sha256": given["sha256"]}

    @property
    def format_label(self) -> str:
        """What its user uploaded, or that it is built in."""
        return "PyTorch" if self.source else self.get_kind_display()

    @property
    def can_tune(self) -> bool:
        """Whether it can be built here. Of others only the name is known."""
        return self.kind != self.Kind.NAMED

    @property
    def is_quantized(self) -> bool:
        """Whether it is an ONNX file in the QDQ format."""
        return self.kind == self.Kind.ONNX and DEQUANTIZE in self.operators

    @property
    def file(self) -> Path:
        """The uploaded model, under a name of our making."""
        return networks_dir() / f"{self.sha256}{SUFFIX[self.kind]}"

    def batches(self) -> Batches | None:
        """The same network for other batches, or None if there is no other.

        That is a built-in network with another `batch`, or the same file with another value for the dimension that its inputs have first.
        """
        if self.kind == self.Kind.BUILTIN:
            return self._builtin_batches()
        return self._uploaded_batches() if self.is_uploaded else None

    def every_batch(self) -> list[NetworkBatchDict]:
        """An uploaded model for each batch, if there are several. None of others: which options of a built-in network others use is theirs to know."""
        known = self.batches() if self.is_uploaded else None
        every = {known.own: self, **known.others} if known else {}
        return [{"batch": batch, "id": one.pk, "name": one.name} for batch, one in sorted(every.items())]

    def _builtin_batches(self) -> Batches | None:
        own = self.options.get("batch")
        alike = Network.objects.filter(kind=self.kind, name=self.name).exclude(pk=self.pk)
        others = {
            one.options["batch"]: one
            for one in alike
            if one.options | {"batch": own} == self.options and own is not None
        }
        return Batches(own, others) if others else None

    def _uploaded_batches(self) -> Batches | None:
        """Of several dimensions that may be the batch, the one that has most values."""
        found: dict[str, dict[int, Network]] = defaultdict(dict)
        for other in Network.objects.filter(project=self.project_id, kind=self.kind, sha256=self.sha256):
            differing = [name for name, value in self.dims.items() if other.dims.get(name) != value]
            if len(differing) == 1 and _differ_in_batch(self, other, differing[0]):
                found[differing[0]][other.dims[differing[0]]] = other
        if not found:
            return None
        dim = max(found, key=lambda name: len(found[name]))
        return Batches(self.dims[dim], found[dim])

    def spec(self) -> NetworkSpec:
        """What a process of this machine is told, which has a copy of the file then. Only of a network that can be tuned.

        Raises `OSError` if the file can't be fetched.
        """
        if not self.is_uploaded:
            return NetworkSpec(self.name, self.options)
        store().fetch(self.file)
        file = msgspec.convert({"format": self.kind, "path": str(self.file), "dims": self.dims}, ModelFile)
        return NetworkSpec(self.name, file=file)

    def to_dict(self) -> NetworkDetail:
        return {
            "id": self.pk,
            "name": self.name,
            "project": self.project.name if self.project else None,
            "kind": self.kind,
            "options": self.options,
            "dims": self.dims,
            "batches": self.every_batch(),
            "file_name": self.file_name or None,
            "size": self.size,
            "sha256": self.sha256 or None,
            "source": cast("SourceDict | None", self.source),
            "inputs": self.inputs,
            "parameters": self.parameters,
            "operators": self.operators,
            "float_model": self.float_model_id,
            "flop": self.flop,
            "uploaded_by": username(self.uploaded_by),
            "uploaded_at": iso(self.uploaded_at),
        }


def _differ_in_batch(one: Network, other: Network, dim: str) -> bool:
    """Whether the first axis of inputs is all in which they differ, and that dimension."""
    if other.dims.keys() != one.dims.keys() or len(one.inputs) != len(other.inputs):
        return False
    pairs = [(ours["shape"], theirs["shape"]) for ours, theirs in zip(one.inputs, other.inputs, strict=True)]
    changed = [(ours, theirs) for ours, theirs in pairs if ours != theirs]
    batches = one.dims[dim], other.dims[dim]
    return bool(changed) and all((a[0], b[0]) == batches and a[1:] == b[1:] for a, b in changed)


def networks_dir() -> Path:
    return Path(settings.VAR) / "networks"
