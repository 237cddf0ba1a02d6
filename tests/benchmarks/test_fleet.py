"""The benchmarks of runs over many machines, with made-up latencies in place of measurements."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.benchmarks.fleet.quality import Comparison, Outcome, Plan, compare, geometric_mean
from tuning.engines.wire.protocol import Candidate, Measured


class MadeUp:
    """In place of `quality.Table`."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def __len__(self) -> int:
        return len(self.known)

    @staticmethod
    def latency_s(candidate: Candidate) -> float:
        return 1e-3 + int.from_bytes(hashlib.sha256(candidate.module).digest()[:4], "big") * 1e-12

    def answer(self, candidate: Candidate) -> Measured:
        self.known.add(hashlib.sha256(candidate.module).hexdigest())
        return Measured(id=candidate.id, machine="none", run_secs=[self.latency_s(candidate)])

    def again(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self.latency_s(each) for each in candidates]


@pytest.mark.rare
@pytest.mark.tvm
def test_it_compares_what_many_slots_find_with_what_one_finds(tmp_path: Path) -> None:
    table = MadeUp()
    found = compare(Plan("matmul", 1, 40), [8], table, tmp_path)
    one, many = found.outcomes
    assert (one.slots, many.slots) == (1, 8)
    assert one.measured + many.measured == len(table.known)
    assert all(0 < each.measured <= 40 for each in found.outcomes)
    assert found.ratio(8) == many.best_s / one.best_s


def test_ratios_are_averaged_geometrically() -> None:
    twice, half = (
        Comparison(Plan("matmul", seed, 1), [Outcome(1, 1.0, 1), Outcome(8, best_s, 1)])
        for seed, best_s in ((1, 2.0), (2, 0.5))
    )
    assert geometric_mean([twice, half], 8) == pytest.approx(1)
    assert geometric_mean([twice], 8) == pytest.approx(2)
