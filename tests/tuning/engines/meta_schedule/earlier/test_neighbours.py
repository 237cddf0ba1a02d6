"""Tasks learn from the schedules that the run has found for similar ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.tuning.engines.running import Engine, options, start
from tests.world import task_infos
from tuning.engines.meta_schedule.earlier.neighbours import Neighbours
from tuning.engines.wire.protocol import Finished, NetworkSpec, TaskInfo, TensorInfo

pytestmark = pytest.mark.tvm


def task(index: int, name: str, rows: int, flop: float = 1e9) -> TaskInfo:
    shapes = ([rows, 64], [64, 64], [rows, 64])
    args = [TensorInfo(str(nth), shape, "float32") for nth, shape in enumerate(shapes)]
    return msgspec.structs.replace(task_infos(1)[0], index=index, name=name, args=args, flop=flop)


def candidate(named: str) -> Any:
    """Its schedule is only a name, and so is its function."""
    return SimpleNamespace(sch=SimpleNamespace(trace=named, mod=named))


class Copying:
    """A space that has the same schedules as any other, but for those it refuses."""

    def __init__(self, *refused: str) -> None:
        self._refused = refused

    def adapted(self, trace: Any) -> Any:
        return None if trace in self._refused else candidate(trace)


def measured(neighbours: Neighbours, task: int, **latencies: float | None) -> None:
    """The schedules of these names."""
    results = [SimpleNamespace(run_secs=None if one is None else [one]) for one in latencies.values()]
    neighbours.learn(task, [candidate(name) for name in latencies], results)


def offered(neighbours: Neighbours, task: int, most: int = 9, space: Any = None) -> Sequence[str]:
    return [one.sch.trace for one in neighbours.offer(task, space or Copying(), most)]


def test_the_nearest_shape_comes_first_whatever_is_fused() -> None:
    names = ("fused_matmul_add", "fused_matmul3_add1", "fused_matmul1_add_relu", "max_pool2d")
    neighbours = Neighbours([task(nth, name, 2**nth) for nth, name in enumerate(names)])
    for nth in (1, 2, 3):
        measured(neighbours, nth, **{f"of {nth}": 1e-3})
    assert offered(neighbours, 0) == ["of 1", "of 2"]


def test_only_the_fastest_schedule_of_a_task_is_offered_and_once() -> None:
    neighbours = Neighbours([task(0, "matmul", 8), task(1, "matmul1", 16)])
    measured(neighbours, 1, slow=2e-3, fast=1e-3, failed=None)
    assert offered(neighbours, 0) == ["fast"]
    assert offered(neighbours, 0) == []
    measured(neighbours, 1, slower=3e-3, faster=5e-4)
    assert offered(neighbours, 0) == ["faster"]


def test_a_schedule_that_makes_better_use_of_the_cpu_comes_before_a_nearer_one() -> None:
    neighbours = Neighbours([task(0, "matmul", 8), task(1, "matmul1", 16), task(2, "matmul2", 32)])
    measured(neighbours, 1, near=4e-3)
    measured(neighbours, 2, far=1e-3)
    assert offered(neighbours, 0, most=1) == ["far"]
    assert offered(neighbours, 0, most=1) == ["near"]


def test_what_was_measured_or_does_not_fit_is_not_offered() -> None:
    neighbours = Neighbours([task(nth, f"matmul{nth}", 8 << nth) for nth in range(4)])
    for nth, name in enumerate(("known", "unfit", "new"), start=1):
        measured(neighbours, nth, **{name: 1e-3})
    measured(neighbours, 0, known=5e-3)
    assert offered(neighbours, 0, most=1, space=Copying("unfit")) == ["new"]


def test_a_task_without_operations_has_neighbours_too() -> None:
    neighbours = Neighbours([task(0, "transpose", 8, flop=0.0), task(1, "transpose1", 16, flop=0.0)])
    neighbours.know(1, 1e-3, "known")
    assert offered(neighbours, 0) == ["known"]


@pytest.mark.parametrize("learns", [True, pytest.param(False, marks=pytest.mark.rare)])
def test_a_run_tries_the_best_schedule_of_one_layer_for_the_next(learns: bool, tmp_path: Path) -> None:
    network = NetworkSpec("mlp", {"batch": 64})
    given = start(
        tmp_path / "work", network=network, trials_budget=12, options=options(neighbours=learns, first_trials=4)
    )
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    told = engine.console.read_text()
    assert bool(re.search(r"[1-9] trials were schedules of similar tasks; \d of 2 tasks", told)) is learns
