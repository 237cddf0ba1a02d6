"""Keeps what machines do at best, as engines measure it before their first trial."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models.functions import Now

from tuning.engines.wire.protocol import RooflineMeasured
from tuning.models import Machine, MachineRoofline, Run


def known(run: Run) -> list[dict[str, Any]] | None:
    """Targets whose roofline isn't to be measured on the run's machine; None if the run measures none at all.

    One that was disturbed, or that is to be measured again, is measured once nobody disturbs the machine.
    """
    machine = run.machine
    if machine is None or not run.measures_here or not settings.ROOFLINE:
        return None
    if machine.name in Machine.objects.disturbed():
        return [row.target for row in machine.rooflines.all()]
    return [row.target for row in machine.rooflines.settled()]


def keep(run: Run, event: RooflineMeasured) -> None:
    """Store it in place of an earlier one. To be called within the batch's transaction, by the holder of the run."""
    alive = Machine.objects.alive().filter(runs=run)
    load = alive.values_list("load", flat=True).first() or {}
    MachineRoofline.objects.update_or_create(
        machine=run.machine,
        target_fingerprint=run.target_fingerprint,
        defaults={
            "target": run.target,
            "flops": event.flops,
            "bandwidths": event.bandwidths,
            "threads": event.threads,
            "tvm": run.versions.get("apache-tvm", ""),
            "others_cores": load.get("others_cores"),
            "cpus": load.get("cpus"),
            "took_s": event.took_s,
            "measured_at": Now(),
            "asked_at": None,
        },
    )
