"""Transpositions compute the same block by block, and are offered so where they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.meta_schedule.spaces.test_register_tiles import task, weights
from tests.tuning.engines.sketches import AVX2, AVX512, candidate, computed, marked

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

Layer = Callable[[Any], Any]


def turned(shape: tuple[int, ...], axes: Sequence[int], between: tuple[int, ...] = ()) -> tuple[tuple[int, ...], Layer]:
    """With another shape `between`."""
    from tvm.relax import op

    return shape, lambda x: op.permute_dims(op.reshape(x, between) if between else x, axes)


def added(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[tuple[int, ...], Layer]:
    from tvm.relax import op

    def layer(x: Any) -> Any:
        y = op.permute_dims(x, axes)
        return op.nn.relu(op.add(y, weights(shape[axes[-1]])))

    return shape, layer


NETWORKS: dict[str, Callable[[], tuple[tuple[int, ...], Layer]]] = {
    "channels to the end": lambda: turned((1, 16, 6, 32), (0, 2, 3, 1)),
    "channels from the end": lambda: turned((1, 12, 20, 16), (0, 3, 1, 2)),
    "heads": lambda: turned((1, 24, 64), (0, 2, 3, 1), (1, 24, 2, 32)),
    "an odd number of rows": lambda: turned((1, 37, 48), (0, 2, 3, 1), (1, 37, 3, 16)),
    "a matrix": lambda: turned((48, 64), (1, 0)),
    "few rows": lambda: turned((3, 64), (1, 0)),
    "more than a transposition": lambda: added((1, 16, 8, 32), (0, 2, 3, 1)),
}


in_blocks = partial(marked, "blocks")
"""The sketches that are, and TVM's context of the task."""


@pytest.mark.parametrize("target", [AVX2, {"kind": "llvm", "num-cores": 2}], ids=["256", "as it is"])
@pytest.mark.parametrize("name", NETWORKS)
def test_it_computes_the_same(name: str, target: dict[str, Any]) -> None:
    mod = task(NETWORKS[name](), target)
    expected = computed(mod, target)
    (sketch,), context = in_blocks(mod, target)
    for seed in (1, 2, 3):
        np.testing.assert_allclose(computed(candidate(sketch, context, seed), target), expected, rtol=1e-6)


def test_it_is_offered_only_for_transpositions_of_whole_vectors() -> None:
    from tvm import relax
    from tvm.relax import op

    assert not in_blocks(task(turned((1, 16, 6, 24), (0, 2, 3, 1)), AVX512), AVX512)[0], "24 is no multiple of 16"
    assert not in_blocks(task(turned((1, 16, 6, 32), (0, 2, 1, 3)), AVX2), AVX2)[0], "rows stay together"
    assert not in_blocks(task(((8, 32), op.nn.relu), AVX2), AVX2)[0]
    assert not in_blocks(task(((), lambda x: op.add(x, x)), AVX2), AVX2)[0], "a number"
    assert not in_blocks(task(((8, 32), lambda x: op.sum(op.permute_dims(x, (1, 0)), axis=[1])), AVX2), AVX2)[0]
    taken = relax.const(np.array([3, 1, 2, 0], "int32"))
    assert not in_blocks(task(((8, 32), lambda x: op.take(x, taken, axis=0)), AVX2), AVX2)[0]
    assert not in_blocks(task(turned((48, 64), (1, 0)), AVX2, "float16"), AVX2)[0]
    assert not in_blocks(task(NETWORKS["a matrix"](), AVX2), AVX2, "tvm")[0]
