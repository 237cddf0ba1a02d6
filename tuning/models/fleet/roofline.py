"""What a machine does at best with code for a target, as it was last measured there."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now

from .machine import Machine, disturbs


class RooflineQuerySet(models.QuerySet["MachineRoofline"]):
    def settled(self) -> list[MachineRoofline]:
        """Those that needn't be measured again: nobody asks for it, and nobody disturbed them."""
        return [row for row in self.filter(asked_at__isnull=True) if not row.is_disturbed]

    def ask(self) -> int:
        """Have each measured again by the next run for its target; return how many that wasn't asked of yet."""
        return self.filter(asked_at__isnull=True).update(asked_at=Now())


class MachineRoofline(models.Model):
    """A machine's roofline for a target. Its worker measures it while a run holds the device, so there is one writer."""

    machine = models.ForeignKey(Machine, on_delete=models.CASCADE, related_name="rooflines")
    target_fingerprint = models.CharField(max_length=64)
    target = models.JSONField()
    """As resolved."""
    flops = models.FloatField()
    """Floating-point operations per second, of float32."""
    bandwidths = models.JSONField()
    """Pairs of a working set in bytes and bytes per second, ascending."""
    threads = models.PositiveIntegerField()
    tvm = models.CharField(max_length=60)
    """The version of TVM that built the kernels; empty if the engine didn't tell."""
    others_cores = models.FloatField(null=True)
    """Processors that others' processes used meanwhile; null if the machine didn't tell."""
    cpus = models.PositiveIntegerField(null=True)
    took_s = models.FloatField()
    measured_at = models.DateTimeField(db_default=Now())
    asked_at = models.DateTimeField(null=True)
    """Since when it is to be measured again."""

    objects = RooflineQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(fields=("machine", "target_fingerprint"), name="roofline_once_a_target"),
        )

    def __str__(self) -> str:
        return f"roofline of {self.machine}"

    @property
    def is_disturbed(self) -> bool:
        """Whether others used so much of the machine that its figures are too low."""
        load: dict[str, Any] = {"others_cores": self.others_cores, "cpus": self.cpus}
        return disturbs(load)
