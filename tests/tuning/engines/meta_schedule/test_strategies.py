"""How a task's first candidates are drawn, and ranked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tuning.engines.meta_schedule.strategies import DRAWN, FirstCandidates, is_trained

pytestmark = pytest.mark.tvm


def test_tvms_model_ranks_only_once_it_has_learned_enough() -> None:
    model = SimpleNamespace(booster=None, data_size=100, num_warmup_samples=32)
    assert not is_trained(model)
    model.booster = object()
    assert is_trained(model)
    model.data_size = 31
    assert not is_trained(model)
    assert not is_trained(SimpleNamespace()), "as a model that draws at random"


def model(data_size: int) -> Any:
    """A cost model that has learned from so many candidates, and prefers those with the shortest code; `ranked` has how many it was asked about."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    @derived_object
    class Model(ms.cost_model.PyCostModel):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.booster, self.num_warmup_samples, self.data_size = object(), 32, data_size
            self.ranked: list[int] = []

        def predict(self, _context: Any, candidates: list[Any]) -> Any:
            self.ranked.append(len(candidates))
            return np.array([-float(length(one)) for one in candidates])

    return Model()


def length(candidate: Any) -> int:
    return len(str(candidate.sch.mod))


def begun(model: Any, size: int, network: str = "matmul") -> FirstCandidates:
    """For a task with many candidates, or one with a single one."""
    import tvm
    from tvm import te
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    x, k = te.placeholder((64, 64), name="x"), te.reduce_axis((0, 64), name="k")
    y = {
        "matmul": lambda: te.compute((64, 64), lambda i, j: te.sum(x[i, k] * x[k, j], axis=k), name="y"),
        "constant": lambda: te.compute((1,), lambda i: x[0, 0] + 1.0, name="y"),
    }[network]()
    context = ms.TuneContext(
        tvm.IRModule({"main": te.create_prim_func([x, y])}),
        target=Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2}),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    first = FirstCandidates()
    first.initialize(context)
    first.pre_tuning(100, size, context.generate_design_space(), None, model)
    return first


def test_the_model_picks_the_best_of_many_that_are_drawn() -> None:
    ranking = model(data_size=40)
    found = [length(one) for one in begun(ranking, 1).draw()]
    assert len(found) > DRAWN / 2
    assert ranking.ranked == [len(found)]
    assert found == sorted(found)


def test_no_more_are_drawn_than_are_measured_before_it_can_rank() -> None:
    ranking = model(data_size=31)
    assert len(begun(ranking, 4).draw()) <= 4
    assert ranking.ranked == []


def test_a_schedule_is_drawn_once() -> None:
    assert len(begun(model(data_size=40), 4, "constant").draw()) == 1
