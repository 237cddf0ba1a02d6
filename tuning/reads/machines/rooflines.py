"""What machines do at best, as it was measured there."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from typing_extensions import TypedDict

from tuning.models import MachineRoofline, Run, iso


class RooflineDict(TypedDict):
    """A machine's roofline for a target: floating-point operations per second of float32, bytes per second by working set in bytes.

    `others_cores` of its `cpus` were used by other processes while it was measured; if `disturbed`, so many that its figures are too low.
    `asked_at`: since when it is to be measured again.
    """

    machine: str
    target: dict[str, Any]
    flops: float
    bandwidths: list[tuple[int, float]]
    threads: int
    tvm: str
    others_cores: float | None
    cpus: int | None
    disturbed: bool
    took_s: float
    measured_at: str
    asked_at: str | None


def rooflines(user: User | None) -> dict[int, list[RooflineDict]]:
    """Those of all machines, by the machine's key: for the machine's own target, and for those of runs that the user sees."""
    alike = Run.objects.seen_by(user).filter(target_fingerprint=OuterRef("target_fingerprint"))
    found: dict[int, list[RooflineDict]] = defaultdict(list)
    rows: Any = MachineRoofline.objects.select_related("machine").annotate(seen=Exists(alike))
    for row in rows:
        if row.seen or row.target == row.machine.target:
            found[row.machine_id].append(to_dict(row))
    return found


def to_dict(row: MachineRoofline) -> RooflineDict:
    return {
        "machine": row.machine.name,
        "target": row.target,
        "flops": row.flops,
        "bandwidths": row.bandwidths,
        "threads": row.threads,
        "tvm": row.tvm,
        "others_cores": row.others_cores,
        "cpus": row.cpus,
        "disturbed": row.is_disturbed,
        "took_s": row.took_s,
        "measured_at": row.measured_at.isoformat(),
        "asked_at": iso(row.asked_at),
    }
