"""What is compared: workloads, batch sizes and budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec


class Workload(msgspec.Struct, frozen=True):
    """A network to tune, and how many trials it gets at each of its batch sizes."""

    name: str
    network: str
    options: dict[str, Any]
    trials: dict[int, int]
    seconds_a_trial: dict[int, float]
    """Of both sides together on two cores, roughly: to say beforehand how long a plan takes."""


CONV2D = {"batch": 1, "size": 56, "channels": 64, "layout": "NHWC"}
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("matmul", "matmul", {"n": 128}, {64: 128, 16: 64}, {64: 0.9, 16: 2.5}),
        Workload("conv2d", "conv2d", CONV2D, {64: 128, 16: 64}, {64: 1.2, 16: 3.6}),
        # 20 tasks: fewer trials than 20 batches leave some of them without any in stock TVM.
        Workload("resnet-18", "resnet-18", {}, {16: 320}, {16: 3.8}),
    )
}
BATCHES = (64, 16)


class Pair(msgspec.Struct, frozen=True):
    """One comparison: both sides with the same seed."""

    workload: str
    batch: int
    trials: int
    seed: int

    @property
    def key(self) -> str:
        """What tells it from others."""
        return f"{self.workload} ×{self.batch} of {self.trials}, seed {self.seed}"

    @property
    def seconds(self) -> float:
        """About how long it takes on two cores."""
        known = WORKLOADS[self.workload].seconds_a_trial
        nearest = min(known, key=lambda batch: abs(batch - self.batch))
        return (
            known[nearest] * nearest / self.batch * self.trials
            if self.batch < nearest
            else known[nearest] * self.trials
        )


def pairs(workloads: Sequence[str], batches: Sequence[int], repeats: int, trials: int | None) -> Iterator[Pair]:
    """All comparisons, a whole round of them for each repeat, so that an interrupted plan has something of each.

    A workload sits out at batch sizes that aren't its own, unless the trials are given.
    """
    for seed in range(1, repeats + 1):
        for name in workloads:
            for batch in batches:
                if budget := trials or WORKLOADS[name].trials.get(batch):
                    yield Pair(name, batch, budget, seed)
