"""Products are padded where tiles of what they are padded to take less time, and only these are offered then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tuning.engines.meta_schedule.spaces.test_register_tiles import attention, conv, dense, sketches, task, turned
from tests.tuning.engines.sketches import AVX2

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.


def padded(mod: Any) -> set[tuple[int, ...] | None]:
    """What the task's sketches with tiles compute; None for those that aren't padded."""
    tiled, _ = sketches(mod, AVX2)
    return {
        next((tuple(map(int, one.attrs[0])) for one in sketch.trace.insts if str(one.kind.name) == "PadEinsum"), None)
        for sketch in tiled
    }


@pytest.mark.parametrize(
    ("network", "extents"),
    [
        (lambda: dense(197, 24, 192), {(1, 198, 192, 1)}),
        (lambda: turned(12, 197, 24), {(1, 198, 192, 1)}),
        (lambda: attention(3, 197, 16), {(1, 198, 200, 1)}),
        (lambda: dense(196, 24, 192), {None}),
        (lambda: dense(13, 24, 192), {None}),
        (lambda: conv((1, 13, 13, 24), 64, 1), {None}),
        (lambda: dense(197, 24, 190), set()),
    ],
    ids=["rows", "with what is fused", "columns", "tiles divide it", "few rows", "an image's rows", "constant columns"],
)
def test_rows_and_columns_are_added_until_good_tiles_divide_them(
    network: Callable[[], Any], extents: set[tuple[int, ...] | None]
) -> None:
    assert padded(task(network(), AVX2)) == extents


def test_what_is_fused_takes_its_part_of_a_padded_product_from_the_registers() -> None:
    tiled, _ = sketches(task(dense(37, 24, 64), AVX2), AVX2)
    assert tiled
    for sketch in tiled:
        buffers = sketch.mod["main"].body.block.alloc_buffers
        assert [one.name for one in buffers if one.scope() != "local"] == ["x_pad"]
