"""How a task's first candidates are drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tuning.engines.meta_schedule.strategies import FirstCandidates, hash_of

pytestmark = pytest.mark.tvm


@pytest.mark.parametrize(
    ("model", "ranks"),
    [
        ({"booster": None, "data_size": 100, "num_warmup_samples": 32}, False),
        ({"booster": object(), "data_size": 31, "num_warmup_samples": 32}, False),
        ({"booster": object(), "data_size": 32, "num_warmup_samples": 32}, True),
        ({}, False),
    ],
    ids=["untrained", "trained with too few", "trained", "random"],
)
def test_candidates_could_be_ranked_once_tvms_model_has_learned_enough(model: dict[str, Any], ranks: bool) -> None:
    first = FirstCandidates(SimpleNamespace(**model))
    assert first.could_be_ranked is ranks
    assert first.clone().could_be_ranked is ranks, "all tasks of a run have the same model"


def first_candidates(network: str = "matmul") -> FirstCandidates:
    """Those of a task with many, or of one with a single one."""
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
    first = FirstCandidates(SimpleNamespace())
    first.initialize(context)
    first.draw_from(context.generate_design_space())
    return first


def test_as_many_different_ones_are_drawn_as_are_measured() -> None:
    first = first_candidates()
    drawn = [*first.draw(4), *first.draw(8), *first.draw(16)]
    assert len({hash_of(candidate) for candidate in drawn}) == len(drawn) == 28


def test_a_schedule_is_drawn_once() -> None:
    first = first_candidates("constant")
    assert (len(first.draw(4)), len(first.draw(4))) == (1, 0)
