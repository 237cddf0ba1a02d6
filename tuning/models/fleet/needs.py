"""What code for a target needs of a machine; runs with equal needs share a row, so that few are compared with each machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from django.db import models

from .machine import Machine


class NeedsManager(models.Manager["Needs"]):
    def of(self, features: Iterable[str], cores: int) -> Needs:
        """The row with these, made if there is none."""
        wanted = sorted(set(features))
        digest = hashlib.sha256(json.dumps([wanted, cores]).encode()).hexdigest()
        found, _ = self.get_or_create(digest=digest, defaults={"features": wanted, "cores": cores})
        return found


class Needs(models.Model):
    """An architecture, instructions and cores that a machine must have."""

    digest = models.CharField(max_length=64, unique=True)
    features = models.JSONField()
    """A machine must have all of these among its own."""
    cores = models.PositiveIntegerField()
    """A machine must have at least as many."""

    objects = NeedsManager()

    def __str__(self) -> str:
        return f"{len(self.features)} features, {self.cores} cores"

    def met_by(self, machine: Machine) -> bool:
        """Whether code for the target runs there."""
        return machine.cores >= self.cores and set(self.features) <= set(machine.features)
