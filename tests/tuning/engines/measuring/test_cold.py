"""Before each timed execution, as much is read as the network touches between two uses of the function's weights."""

from __future__ import annotations

import math
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.tuning.engines.running import Engine, options, start
from tuning.engines.measuring import arguments, cold
from tuning.engines.measuring.arguments import WEIGHTS
from tuning.engines.measuring.local import LocalBuilder, LocalRunner
from tuning.engines.measuring.outcomes import Timing
from tuning.engines.wire.protocol import NetworkSpec, TasksExtracted

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
DENSE = """
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((1, 64), "float32"), w: T.Buffer((64, 64), "float32"), y: T.Buffer((1, 64), "float32")):
        T.func_attr({"tirx.noalias": True, "layout_free_buffers": [1]})
        for j, k in T.grid(64, 64):
            with T.sblock("dense"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    y[0, vj] = T.float32(0)
                y[0, vj] = y[0, vj] + x[0, vk] * w[vk, vj]
"""
ARGUMENTS = [("TENSOR", "float32", [1, 64]), (WEIGHTS, "float32", [64, 64]), ("TENSOR", "float32", [1, 64])]
OWN = 64 * 64 * 4


class Evaluator(NamedTuple):
    """What `measure_with_race` measures by."""

    number: int
    repeat: int
    min_repeat_ms: int


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of what is read, in order; nothing is."""
    found: list[int] = []

    def sweep(lines: Any, _sums: Any) -> None:
        found.append(math.prod(map(int, lines.shape)) * 4)

    monkeypatch.setenv(cold.THREADS, "1")
    monkeypatch.setattr(cold, "_sweep", lambda _threads: (sweep, None))
    monkeypatch.setattr(cold, "_largest", [])
    return found


def evaluator(cold_bytes: int) -> cold.Evaluator:
    import tvm
    from tvm.script import from_source

    tensors = [(kind, tvm.runtime.empty(shape, dtype)) for kind, dtype, shape in ARGUMENTS]
    module = tvm.compile(from_source(DENSE), {"kind": "llvm"})
    return cold.Evaluator(module.mod, tvm.cpu(), tensors, cold_bytes)


def test_other_weights_are_read_before_each_execution_then_what_is_no_weight(read: list[int]) -> None:
    (latency,) = evaluator(OWN + (1 << 20)).run_secs(Evaluator(3, 1, 0))
    assert 0 < latency < 1
    assert read == [1 << 20, 256, 256] * 3


def test_weights_stay_in_the_caches_of_a_network_with_no_others(read: list[int]) -> None:
    evaluator(OWN).run_secs(Evaluator(2, 1, 0))
    assert read == [256, 256] * 2


def test_no_more_is_read_than_pushes_everything_out(read: list[int]) -> None:
    evaluator(1 << 40).run_secs(Evaluator(1, 1, 0))
    assert read[0] == cold.MOST_BYTES


def test_tasks_are_measured_in_turn_each_as_cold_as_its_own_weights(read: list[int]) -> None:
    """What is read is the same memory for all, once it is large enough."""
    kept = []
    for others in (1 << 12, 1 << 20, 1 << 16, 0):
        evaluator(OWN + others).run_secs(Evaluator(1, 1, 0))
        kept += cold._largest
    assert read == [1 << 12, 256, 256, 1 << 20, 256, 256, 1 << 16, 256, 256, 256, 256]
    assert kept[1] is kept[2] is kept[3] is not kept[0]


def test_a_repeat_has_as_many_executions_as_its_least_time_allows(read: list[int]) -> None:
    assert len(evaluator(OWN + 64).run_secs(Evaluator(1, 2, 200))) == 2
    executions = len(read) / 3
    assert 2 * 2 < executions <= 2 * cold.MOST_EXECUTIONS


def test_each_line_is_read_once_whatever_the_threads() -> None:
    for threads in (1, 3):
        sweep, sums = cold._sweep(threads)
        before = sums.numpy().sum()
        sweep(cold._lines(cold._other_weights(1 << 20), 100 * cold.LINE), sums)
        assert sums.numpy().sum() - before == 100


def test_a_worker_measures_so(context: ForkServerContext, tmp_path: Path) -> None:
    """A candidate too slow for its race is measured briefly."""
    import tvm
    from tvm.script import from_source

    builder = LocalBuilder(context, tmp_path / "artifacts", max_workers=1, timeout_s=60.0, suffix=".ll")
    runner = LocalRunner(context, config=(2, 1, 100), timeout_s=30.0, threads=2)
    for limit_s, short in ((None, False), (1.0, False), (1e-9, True)):
        ((_, path),) = builder.build([tvm.ir.save_json(from_source(DENSE))], '{"kind": "llvm"}')
        assert isinstance(path, Path), path
        timing = runner.run(path, "cpu", ARGUMENTS, limit_s, 1 << 20)
        assert isinstance(timing, Timing), timing
        assert (timing.short, len(timing.run_secs) > 1) == (short, short)
    runner.close()


WEIGHTS_OF_MLP, RESULTS_OF_MLP = 784 * 128 + 128 + 128 * 10 + 10, 128 + 10


@pytest.mark.parametrize(("chosen", "told"), [(True, (WEIGHTS_OF_MLP + RESULTS_OF_MLP) * 4), (False, 0)])
def test_the_engine_tells_how_cold(chosen: bool, told: int, tmp_path: Path) -> None:
    given = start(tmp_path / "work", network=NetworkSpec("mlp"), trials_budget=4, options=options(cold_weights=chosen))
    with Engine(given, tmp_path / "console.log") as engine:
        engine.to_the_end()
    (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    assert extracted.cold_bytes == told
    assert {task.cold_bytes for task in extracted.tasks} == {told or None}
    assert all(trial.error is None for trial in engine.trials)


def test_weights_of_a_record_are_known(tmp_path: Path) -> None:
    """Also once a schedule has packed them."""
    from tests.tuning.engines.compiling import best
    from tuning.engines.meta_schedule.trust.rebuilding import candidate_of

    given = start(tmp_path / "work", network=NetworkSpec("mlp"), trials_budget=8)
    with Engine(given, tmp_path / "console.log") as engine:
        engine.to_the_end()
    for record in best(engine):
        kinds = [kind for kind, _, _ in arguments.described(candidate_of(record.text))]
        assert kinds == ["TENSOR", WEIGHTS, WEIGHTS, "TENSOR"]
