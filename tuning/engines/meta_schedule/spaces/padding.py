"""Pads matrix products of which no good tile divides the rows or columns, such as those of a ViT's 197 tokens.

A tile of a single row reads a vector for each multiplication, and without whole vectors there is none. With a row more there are tiles of six rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tuning.engines.targets.registers import MOST_VECTORS, Registers

from .products import Axes, Product

WORTH = 1.05
"""How many times as fast tiles must be, at least, because the factors are copied."""
FEWEST_ROWS = 16
"""With fewer, copying takes longer than tiles save."""
MOST_ROWS = 7
"""How many are added, at most."""


def padding(product: Product, axes: Axes, registers: Registers) -> dict[int, int]:
    """By loop, the extents with which tiles take the least time; empty if they aren't worth it.

    Constants aren't padded: they would be copied in each inference.
    """
    rows, columns = product.extents[axes.rows], product.extents[axes.vector]
    if rows < FEWEST_ROWS or any(one.is_free and axes.rows in one.loops for one in product.factors):
        return {}
    fewest = -(-columns // registers.lanes)
    most = fewest + MOST_VECTORS
    if any(one.is_free and axes.vector in one.loops for one in product.factors):
        most = fewest if columns % registers.lanes == 0 else 0

    def speed(height: int, vectors: int) -> float:
        """Of what isn't padding."""
        return registers.speed(height, vectors) * rows * columns / (height * vectors * registers.lanes)

    sizes: Iterable[tuple[int, int]] = (
        (height, vectors) for height in range(rows, rows + MOST_ROWS + 1) for vectors in range(fewest, most + 1)
    )
    best = max(sizes, key=lambda size: speed(*size), default=None)
    as_it_is = speed(rows, fewest) if columns % registers.lanes == 0 else 0.0
    if best is None or speed(*best) < WORTH * as_it_is:
        return {}
    height, vectors = best
    return {axes.rows: height, axes.vector: vectors * registers.lanes}


def pad(schedule: Any, block: Any, extents: dict[int, int]) -> None:
    """Have the block compute so much; what is fused after it takes what it needs. Raises `ScheduleError`."""
    loops = schedule.get_loops(block)
    schedule.pad_einsum(block, [extents.get(nth, 1) for nth in range(len(loops))])
    (cropped,) = schedule.get_consumers(block)
    if schedule.get_consumers(cropped):
        schedule.compute_inline(cropped)
