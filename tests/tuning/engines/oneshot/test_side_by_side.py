"""Records of several runs are built once, and measured in turn."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Union

import pytest

from tests.tuning.engines.oneshot.test_generating import record
from tuning.engines.measuring.outcomes import Failure, Timing
from tuning.engines.meta_schedule.trust.built import Built
from tuning.engines.oneshot.side_by_side import in_rounds
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.side_by_side.messages import (
    LEAST_ROUNDS,
    MOST_ROUNDS,
    Again,
    Doing,
    InTurn,
    MeasureInTurn,
)
from tuning.host import sandbox


class Bench:
    """Measures files by their names: what each takes in turn, None for a failure."""

    def __init__(self, folder: Path, **latencies: Iterable[float | None]) -> None:
        self.built = {index: Built(folder / f"{name}.ll", "cpu", []) for index, name in enumerate(latencies)}
        for one in self.built.values():
            one.path.touch()
        self.left = {name: iter(each) for name, each in latencies.items()}
        self.measured: list[str] = []
        self.shares: list[float] = []

    def run(
        self, path: Path, device_type: str, args_info: list[Any], limit_s: float | None, cold_bytes: int
    ) -> Timing | Failure:
        assert limit_s is None, "each is measured at full length"
        name = path.stem.removeprefix("again-")
        path.unlink()
        self.measured.append(name)
        took = next(self.left[name])
        return Failure("run", "It crashed.") if took is None else Timing([took, took])

    def in_rounds(self, seconds: float) -> dict[int, Again]:
        return in_rounds(self.built, self, seconds, self.shares.append)


def test_they_take_turns_in_alternating_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path, a=[1.0] * LEAST_ROUNDS, b=[2.0] * LEAST_ROUNDS)
    assert bench.in_rounds(0.0) == {0: Again([1.0] * LEAST_ROUNDS), 1: Again([2.0] * LEAST_ROUNDS)}
    assert bench.measured == ["a", "b", "b", "a", "a", "b", "b", "a", "a", "b"]
    assert bench.shares == [pytest.approx(done / LEAST_ROUNDS) for done in range(1, LEAST_ROUNDS + 1)]


def test_with_time_there_are_more_rounds_up_to_a_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path, a=[1.0] * 99)
    assert bench.in_rounds(1e9) == {0: Again([1.0] * MOST_ROUNDS)}


def test_one_that_fails_is_not_measured_again_and_the_others_are(tmp_path: Path) -> None:
    bench = Bench(tmp_path, a=[1.0] * LEAST_ROUNDS, b=[2.0, None])
    assert bench.in_rounds(0.0) == {0: Again([1.0] * LEAST_ROUNDS), 1: Again([], "It crashed.")}
    assert bench.measured.count("b") == 2
    nothing = Bench(tmp_path, a=[None])
    assert nothing.in_rounds(1e9) == {0: Again([], "It crashed.")}


@pytest.mark.tvm
@pytest.mark.filterwarnings("default")
def test_records_are_built_and_measured_in_a_process_of_its_own() -> None:
    """One record can't be applied, which costs only itself."""
    target = {"kind": "llvm", "num-cores": 1}
    texts = [record(target, 4), record(target, 16).replace('"GetSBlock"', '"GetSBlocks"'), record(target, 16)]
    question = MeasureInTurn(
        target=target,
        records=texts,
        seconds=0.1,
        cold_bytes=[4096, 0, 8192],
        options=Options(min_repeat_ms=1),
        memory_mb=16384,
        cpu_s=600,
    )
    kinds: Any = Union[Doing, InTurn]
    *told, answer = sandbox.ask("tuning.engines.oneshot.side_by_side", question, kinds)
    assert list(dict.fromkeys(one.phase for one in told)) == ["loading", "building", "measuring"]
    assert told[-1].progress == 1.0
    first, broken, last = answer.records
    for one in (first, last):
        assert one.error is None
        assert len(one.latencies_s) >= LEAST_ROUNDS
        assert all(0 < latency_s < 1 for latency_s in one.latencies_s)
    assert (broken.latencies_s, broken.error and broken.error.startswith("TVM can't apply it:")) == ([], True)
    assert "apache-tvm" in answer.versions
