"""How near a run's tasks are to what their machine does at best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import TypedDict

from tuning.estimate import weighted
from tuning.models import MachineRoofline, Run, Task
from tuning.roofline import Bound, By, Roofline, compulsory_bytes

ABOVE = 1.1
"""A task this far above its roof isn't there by noise."""


class RoofDict(TypedDict):
    """The least that a task can take on its run's machine.

    `bytes` are those of its inputs and outputs, once each; `intensity` its floating-point operations per byte. `latency_s` is bound by
    `compute` or `memory`. `reached` is its share of the task's best latency: 1 is the roof. `gain_s` is what the estimate would lose at
    the roof. The last two are null without a valid trial, and `gain_s` if the weight isn't recorded.
    """

    bytes: int
    intensity: float
    bound_by: By
    latency_s: float
    reached: float | None
    gain_s: float | None


@dataclass(frozen=True)
class Roof:
    """The least that a task can take, with its bytes."""

    task: Task
    size: int
    bound: Bound

    @property
    def reached(self) -> float | None:
        """Which share of the task's best latency that is. It isn't capped: above 1 the roof is too low."""
        best_s = self.task.best_latency_s
        return self.bound.latency_s / best_s if best_s else None

    @property
    def gain_s(self) -> float | None:
        """Seconds of the estimate, if the task were at its roof."""
        own_s, least_s = self.task.weighted_latency_s, weighted(self.bound.latency_s, self.task.weight)
        return max(0.0, own_s - least_s) if self.task.chosen and own_s is not None and least_s is not None else None

    @property
    def is_broken(self) -> bool:
        """Whether the task is faster than it could be, so its roof is too low."""
        return (self.reached or 0) > ABOVE

    def to_dict(self) -> RoofDict:
        return {
            "bytes": self.size,
            "intensity": self.bound.intensity,
            "bound_by": self.bound.by,
            "latency_s": self.bound.latency_s,
            "reached": self.reached,
            "gain_s": self.gain_s,
        }


def roofline_of(run: Run) -> MachineRoofline | None:
    """What the run's machine does at best with code for its target; None if that wasn't measured, or doesn't apply."""
    if run.synthetic or not run.is_meta_schedule or not run.measures_here:
        return None
    found = MachineRoofline.objects.filter(machine=run.machine_id, target_fingerprint=run.target_fingerprint)
    return found.select_related("machine").first()


def roof(task: Task, roofline: MachineRoofline) -> Roof | None:
    """The task's roof; None if its operations or bytes aren't known, or if it doesn't compute in float32."""
    size = compulsory_bytes(task.args)
    if size is None or task.flop is None:
        return None
    lines = Roofline(roofline.flops, roofline.bandwidths)
    return Roof(task, size, lines.bound(task.flop, size))


def bounding(roofs: Mapping[int, Roof | None], roofline: MachineRoofline | None) -> dict[int, Roof]:
    """The roofs below which no latency is expected: none if they were measured too low."""
    known = {key: one for key, one in roofs.items() if one}
    if roofline is None or roofline.is_disturbed or any(one.is_broken for one in known.values()):
        return {}
    return known
