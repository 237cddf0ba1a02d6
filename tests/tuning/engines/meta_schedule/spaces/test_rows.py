"""Functions that reduce rows compute the same row by row, and are offered so where they can be."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.convnets import Model
from tests.tuning.engines.meta_schedule.spaces.test_register_tiles import dense, task, weights
from tests.tuning.engines.running import Engine, options, start
from tests.tuning.engines.sketches import ARM, AVX2, AVX512, candidate, computed, marked
from tuning.engines.wire.protocol import Finished

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

Layer = Callable[[Any], Any]


def normalized(*shape: int, residual: bool = False) -> tuple[tuple[int, ...], Layer]:
    from tvm.relax import op

    def layer(x: Any) -> Any:
        given = op.add(x, weights(*shape)) if residual else x
        return op.nn.layer_norm(given, weights(shape[-1]), weights(shape[-1]), axes=[-1])

    return shape, layer


def softmax(*shape: int, axis: int = -1, masked: bool = False) -> tuple[tuple[int, ...], Layer]:
    from tvm.relax import op

    return shape, lambda x: op.nn.softmax(op.add(x, weights(*shape[-2:])) if masked else x, axis=axis)


NETWORKS: dict[str, Callable[[], tuple[tuple[int, ...], Layer]]] = {
    "softmax": lambda: softmax(2, 6, 64),
    "softmax of a mask": lambda: softmax(1, 2, 6, 32, masked=True),
    "softmax of no whole vectors": lambda: softmax(2, 5, 37),
    "softmax of one row": lambda: softmax(1, 48),
    "normalization": lambda: normalized(1, 6, 96),
    "normalization of a sum": lambda: normalized(1, 6, 64, residual=True),
}


by_rows = partial(marked, "rows")
"""The sketches that are, and TVM's context of the task."""


@pytest.mark.parametrize("target", [AVX2, {"kind": "llvm", "num-cores": 2}], ids=["256", "as it is"])
@pytest.mark.parametrize("name", NETWORKS)
def test_it_computes_the_same(name: str, target: dict[str, Any]) -> None:
    mod = task(NETWORKS[name](), target)
    expected = computed(mod, target)
    (sketch,), context = by_rows(mod, target)
    for seed in (1, 2):
        np.testing.assert_allclose(computed(candidate(sketch, context, seed), target), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("target", "register"), [(AVX512, r"%zmm\d+"), (AVX2, r"%ymm\d+"), (ARM, r"v\d+\.4s")], ids=["512", "256", "128"]
)
def test_whole_vectors_are_summed(target: dict[str, Any], register: str) -> None:
    import tvm
    from tvm.target import Target

    (sketch,), context = by_rows(task(NETWORKS["normalization"](), target), target)
    library = tvm.compile(candidate(sketch, context, 1), Target(target))
    sums = re.findall(r"\b(?:vaddps|fadd)\s+(.*)", str(library.mod.inspect_source("asm")))
    assert any(re.search(register, operands) for operands in sums)


def turned() -> Any:
    """What reduces rows and is then transposed, so a row of the output needs all rows."""
    import tvm
    from tvm import te

    x, k = te.placeholder((16, 16), name="x"), te.reduce_axis((0, 16), name="k")
    total = te.compute((16,), lambda i: te.sum(x[i, k], axis=k), name="total")
    return tvm.IRModule({"main": te.create_prim_func([x, te.compute((16, 16), lambda i, j: x[j, i] / total[j])])})


def test_it_is_offered_only_where_each_row_is_reduced() -> None:
    from tvm.relax import op

    assert not by_rows(task(softmax(1, 8, 6, 16, axis=1), AVX2), AVX2)[0]
    assert not by_rows(task(dense(8, 16, 24), AVX2), AVX2)[0]
    assert not by_rows(task(((1, 8, 8, 32), lambda x: op.mean(x, axis=[1, 2])), AVX2), AVX2)[0]
    assert not by_rows(task(((8, 32), op.nn.relu), AVX2), AVX2)[0]
    assert not by_rows(turned(), AVX2)[0]
    half = task(((8, 32), op.nn.softmax), AVX2, "float16")
    assert not by_rows(half, AVX2)[0]
    assert not by_rows(task(NETWORKS["softmax"](), AVX2), AVX2, "tvm")[0]


def test_a_search_begins_with_it_and_the_run_says_so(tmp_path: Path) -> None:
    model = Model(6, 64)
    model.node("Softmax", axis=-1)
    given = start(
        tmp_path / "work",
        network=model.saved(tmp_path / "model.onnx"),
        trials_budget=3,
        options=options(strategy="evolutionary", trials_per_batch=3),
        keep_best=3,
    )
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert engine.trials
    assert all("rows" in str(trial.record) for trial in engine.trials if trial.record)
    assert (
        "Rows that are computed at once are among the schedules of 1 of 1 tasks." in (tmp_path / "console").read_text()
    )
