"""Tasks of which nothing is known begin with the schedules of similar workloads."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.running import Engine, lines, options, start
from tuning.engines.meta_schedule.earlier.adapting import Space, nearest, tiles
from tuning.engines.wire import protocol
from tuning.engines.wire.protocol import (
    Adapted,
    Finished,
    KnownRecord,
    ModelFile,
    NetworkSpec,
    TasksExtracted,
    WarmStart,
)

pytestmark = pytest.mark.tvm
BY_TVM = options(schedule_rules="tvm")
TILED = "registers"
"""In a record, the mark of register tiles."""


@pytest.mark.parametrize(
    ("extent", "wanted", "largest", "found"),
    [
        (64, [2, 1, 4, 8], 64, [2, 1, 4, 8]),
        (128, [2, 1, 4, 8], 64, [4, 1, 4, 8]),
        (56, [1, 4, 2, 8], 64, [1, 7, 1, 8]),
        (56, [1, 1, 1, 16], 8, [7, 1, 1, 8]),
        (7, [4, 4, 4], 64, [1, 1, 7]),
        (1, [2, 3], 64, [1, 1]),
    ],
)
def test_tiles_are_the_nearest_that_divide_the_loop(
    extent: int, wanted: list[int], largest: int, found: list[int]
) -> None:
    assert tiles(extent, wanted, largest) == found


def test_a_category_is_the_nearest_that_is_offered() -> None:
    assert [nearest([0, 16, 64, 512], wanted) for wanted in (0, 16, 512)] == [0, 1, 3]
    assert [nearest([4, 7, 14], wanted) for wanted in (1, 6, 28)] == [0, 1, 2]


def schedule_of(rows: int) -> Any:
    from tvm import s_tir, te

    x = te.placeholder((rows, 8), name="x")
    return s_tir.Schedule(te.create_prim_func([x, te.compute((rows, 8), lambda i, j: x[i, j] + 1, name="y")]))


def sketch_of(rows: int, tiles_of_columns: list[int]) -> Any:
    """Splits the rows by the columns' tile. TVM refuses that if the rows are more."""
    schedule = schedule_of(rows)
    outer, inner = schedule.get_loops(schedule.get_sblock("y"))
    _, tile = schedule.sample_perfect_tile(inner, n=2, decision=tiles_of_columns)
    schedule.split(outer, factors=[1, tile])
    return schedule


def test_decisions_that_lead_to_no_valid_schedule_are_left_out() -> None:
    """Where a convolution uses tensor cores, what is valid depends on the shapes."""
    context = SimpleNamespace(mod=schedule_of(6).mod, space_generator=SimpleNamespace(postprocs=[]))
    space = Space(context, [sketch_of(6, [1, 8])])
    assert space.adapted(sketch_of(8, [1, 8]).trace) is not None
    assert space.adapted(sketch_of(2, [4, 2]).trace) is None


def test_a_schedule_without_decisions_is_not_adapted() -> None:
    """A copy's is TVM's only one, and would be the first trial of a transposition, which has better ones."""
    context = SimpleNamespace(mod=schedule_of(6).mod, space_generator=SimpleNamespace(postprocs=[]))
    assert Space(context, [schedule_of(6)]).adapted(schedule_of(8).trace) is None


@pytest.fixture(scope="module")
def similar(tmp_path_factory: pytest.TempPathFactory) -> list[KnownRecord]:
    """The records of a run for matrices of half the size, fastest first."""
    folder = tmp_path_factory.mktemp("earlier")
    given = start(folder / "work", network=NetworkSpec("matmul", {"n": 32}), trials_budget=4, options=BY_TVM)
    with Engine(given, folder / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    valid = sorted((trial.latency_s, trial.record) for trial in engine.trials if trial.latency_s and trial.record)
    return [KnownRecord(0, 7, text) for _, text in valid]


def tuned(folder: Path, answer: WarmStart, **given: object) -> Engine:
    folder.mkdir(exist_ok=True)
    with Engine(start(folder / "work", expect_warm_start=True, **given), folder / "console") as engine:
        engine.until(TasksExtracted)
        engine.write(protocol.encode(answer))
        assert engine.to_the_end() == Finished("budget")
    return engine


def adapted(engine: Engine) -> list[Adapted]:
    return [event for event in engine.seen if isinstance(event, Adapted)]


def before_postprocessing(instructions: list[list[str]]) -> list[str]:
    """The kinds of a record's instructions."""
    kinds = [one[0] for one in instructions]
    return kinds[: kinds.index("EnterPostproc")]


@pytest.mark.rare
def test_it_begins_with_their_schedules_and_goes_on_with_its_own(similar: list[KnownRecord], tmp_path: Path) -> None:
    engine = tuned(tmp_path, WarmStart([], similar[:2]), trials_budget=4)
    assert adapted(engine) == [Adapted([0], [7])]
    assert len(engine.trials) == 4
    assert all(trial.error is None for trial in engine.trials[:2])
    (_, (first, *_)), *_ = lines(tmp_path / "work")
    assert before_postprocessing(first[0]) == before_postprocessing(json.loads(similar[0].text)[1][0][0])


def test_a_record_that_is_not_valid_is_ignored_and_one_with_other_choices_left_out(
    similar: list[KnownRecord], tmp_path: Path
) -> None:
    invalid = KnownRecord(0, 3, '["workload", [[[["NoSuch",[],[],[]]], []], [1.0], null, null]]')
    workload, (((instructions, decisions), *rest)) = json.loads(similar[0].text)
    for kind, _, attributes, _ in instructions:
        if kind == "SamplePerfectTile":
            attributes[1] += 1
    other = KnownRecord(0, 4, json.dumps([workload, [[instructions, decisions], *rest]]))
    engine = tuned(tmp_path, WarmStart([], [invalid, other]), trials_budget=1)
    assert adapted(engine) == []
    assert "Ignored a record of run 3, similar to task 0" in engine.console.read_text()


def test_a_task_with_a_record_of_its_own_begins_with_that(similar: list[KnownRecord], tmp_path: Path) -> None:
    first = tuned(tmp_path / "first", WarmStart([]), trials_budget=2)
    own = [KnownRecord(0, 5, trial.record) for trial in first.trials if trial.record]
    assert adapted(first) == []
    assert adapted(tuned(tmp_path / "second", WarmStart(own, similar[:1]), trials_budget=2)) == []


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace"])
def test_a_batch_has_no_more_than_it_may(similar: list[KnownRecord], strategy: str, tmp_path: Path) -> None:
    engine = tuned(
        tmp_path, WarmStart([], similar[:3]), trials_budget=2, options=options(strategy=strategy, trials_per_batch=2)
    )
    assert adapted(engine) == [Adapted([0], [7])]
    assert len(engine.trials) == 2


def convolution(kernel: int, folder: Path) -> NetworkSpec:
    """With so large a kernel and a ReLU; only one larger than 1 pads its input."""
    import tvm
    from tvm import relax

    block, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((1, 14, 14, 32), "float32"))
    weights = relax.const(np.ones((kernel, kernel, 32, 48), "float32"))
    with block.function("main", [x]):
        with block.dataflow():
            y = relax.op.nn.conv2d(x, weights, padding=kernel // 2, data_layout="NHWC", kernel_layout="HWIO")
            output = block.emit_output(relax.op.nn.relu(block.emit(y)))
        block.emit_func_output(output)
    path = folder / f"{kernel}.json"
    path.write_text(tvm.ir.save_json(block.get()))
    return NetworkSpec("convolution", file=ModelFile("irmodule", str(path)))


def test_decisions_go_to_the_tasks_own_sketch(tmp_path: Path) -> None:
    """A 1 × 1 convolution gets the tiles of one that pads its input, and no padding."""
    folder = tmp_path / "earlier"
    folder.mkdir()
    larger, smaller = (convolution(kernel, tmp_path) for kernel in (3, 1))
    given = start(folder / "work", network=larger, trials_budget=2, options=BY_TVM)
    with Engine(given, folder / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    known = [KnownRecord(0, 7, trial.record) for trial in engine.trials if trial.record]
    engine = tuned(tmp_path / "later", WarmStart([], known[:1]), network=smaller, trials_budget=2)
    assert adapted(engine) == [Adapted([0], [7])]
    assert all(trial.error is None for trial in engine.trials)
    (_, (first, *_)), (_, (second, *_)) = lines(tmp_path / "later" / "work")
    padding = json.loads(known[0].text)[1][0][0]
    assert [one[0] for one in padding].count("SampleComputeLocation") == 1
    for instructions, _ in (first, second):
        assert "SampleComputeLocation" not in [one[0] for one in instructions]


def test_register_tiles_are_adapted_to_other_shapes(tmp_path: Path) -> None:
    """Which heights are offered depends on the shape."""
    (tmp_path / "earlier").mkdir()
    given = start(tmp_path / "earlier" / "work", network=NetworkSpec("matmul", {"n": 48}), trials_budget=8)
    with Engine(given, tmp_path / "earlier" / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    known = [KnownRecord(0, 7, trial.record) for trial in engine.trials if trial.record and TILED in trial.record]
    engine = tuned(tmp_path / "later", WarmStart([], known[:1]), trials_budget=1)
    assert adapted(engine) == [Adapted([0], [7])]
    assert TILED in str(engine.trials[0].record)
