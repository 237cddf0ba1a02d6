"""What is compared: workloads, batch sizes and budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec


class Workload(msgspec.Struct, frozen=True):
    """A network to tune, with its budget of trials for each batch size."""

    name: str
    network: str
    options: dict[str, Any]
    trials: dict[int, int]
    seconds_a_trial: dict[int, float]
    """A rough figure for both sides together on two cores, to predict a plan's duration."""


CONV2D = {"batch": 1, "size": 56, "channels": 64, "layout": "NHWC"}
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("matmul", "matmul", {"n": 128}, {64: 128, 16: 64}, {64: 0.9, 16: 2.5}),
        Workload("conv2d", "conv2d", CONV2D, {64: 128, 16: 64}, {64: 1.2, 16: 3.6}),
        # 20 tasks: with fewer than 20 batches stock TVM leaves some without trials.
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
        """Identifies the pair."""
        return f"{self.workload} ×{self.batch} of {self.trials}, seed {self.seed}"

    @property
    def seconds(self) -> float:
        """Roughly how long it takes on two cores."""
        known = WORKLOADS[self.workload].seconds_a_trial
        nearest = min(known, key=lambda batch: abs(batch - self.batch))
        return (
            known[nearest] * nearest / self.batch * self.trials
            if self.batch < nearest
            else known[nearest] * self.trials
        )


def pairs(workloads: Sequence[str], batches: Sequence[int], repeats: int, trials: int | None) -> Iterator[Pair]:
    """All pairs, repeat by repeat, so that an interrupted plan has some results of each workload.

    A workload is only compared at its own batch sizes, unless `trials` is given.
    """
    for seed in range(1, repeats + 1):
        for name in workloads:
            for batch in batches:
                if budget := trials or WORKLOADS[name].trials.get(batch):
                    yield Pair(name, batch, budget, seed)
