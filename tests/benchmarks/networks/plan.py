"""Which networks are tuned, and with what budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from .models import MODELS

THIS = "this"
"""The target of this machine's CPU."""


class Workload(msgspec.Struct, frozen=True):
    """A network and its whole budget."""

    name: str
    trials: int
    """About 64 for each task."""
    options: dict[str, Any] = {}

    @property
    def is_uploaded(self) -> bool:
        """Whether it is one of this benchmark's ONNX files, rather than built in."""
        return self.name in MODELS


class Tuning(msgspec.Struct, frozen=True):
    """One tuning of a network with a share of its budget."""

    workload: Workload
    share: float
    seed: int
    minutes: float
    options: dict[str, Any] = {}
    """Of the tuning, besides those that this benchmark sets."""
    target: str = THIS

    @property
    def key(self) -> str:
        where = [] if self.target == THIS else [f"for {self.target}"]
        set_ = set_to(self.options)
        return ", ".join([self.workload.name, f"{self.trials} trials", f"seed {self.seed}", *where, *set_])

    @property
    def trials(self) -> int:
        return round(self.workload.trials * self.share)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("resnet-18", 1200),
        Workload("resnet-50", 1600),
        Workload("mobilenet", 1400),
        Workload("squeezenet_v1.1", 1200),
        Workload("inception_v3", 3000),
        Workload("resnet3d-18", 1200),
        Workload("mlp", 256),
        Workload("bert", 1000),
        Workload("vit", 1000),
        Workload("vit-class-token", 1000),
        Workload("unet", 640),
        Workload("yolov3-tiny", 900),
    )
}
WHOLE, TENTH = 1.0, 0.1
MINUTES = 30.0


def set_to(options: Mapping[str, Any]) -> list[str]:
    """The options as on the command line."""
    return [f"{name}={value}" for name, value in options.items()]


def tunings(
    names: Sequence[str],
    shares: Sequence[float],
    seeds: Sequence[int],
    minutes: float,
    *,
    options: dict[str, Any],
    target: str = THIS,
) -> Iterator[Tuning]:
    """The smaller budgets of all networks first."""
    for share in sorted(shares):
        for seed in seeds:
            for name in names:
                yield Tuning(WORKLOADS[name], share, seed, minutes * share, options, target)
