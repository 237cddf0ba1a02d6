"""Tiles of sums fit a CPU's registers, the fastest first."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tvm


@pytest.mark.parametrize(
    ("rows", "vectors", "fastest"),
    [
        (196, 8, [(4, 2), (2, 4), (7, 1)]),
        (49, 16, [(7, 1)]),
        (1, 3, [(1, 3)]),
        (11, 1, [(11, 1)]),
    ],
    ids=["as many as keep both units busy", "a few rows", "one row", "one vector"],
)
def test_those_are_tried_that_keep_the_cpu_busy(rows: int, vectors: int, fastest: list[tuple[int, int]]) -> None:
    from tuning.engines.targets.registers import AVX

    assert AVX.tiles(rows, vectors) == fastest


@pytest.mark.parametrize("name", ["AVX512", "AVX", "SSE", "NEON"])
def test_none_takes_more_registers_than_there_are(name: str) -> None:
    from tuning.engines.targets import registers

    known = getattr(registers, name)
    found = known.tiles(48, 16)
    assert {(tile.rows, tile.vectors) for tile in found if tile.rows > 1} <= {
        (rows, vectors) for rows in range(48) for vectors in range(16) if rows * vectors + vectors <= known.number
    }
    assert all(48 % tile.rows == 0 and 16 % tile.vectors == 0 for tile in found)


@pytest.mark.parametrize(
    ("name", "columns", "time"),
    [
        ("AVX", 64, 8),
        ("AVX", 100, 25),
        ("AVX", 101, float("inf")),
        ("AVX512", 64, 4),
        ("AVX512", 72, 4.5),
        ("NEON", 2, float("inf")),
    ],
    ids=[
        "whole vectors",
        "halves",
        "no vectors",
        "wide vectors",
        "their halves, twice as fast",
        "halves of two numbers",
    ],
)
def test_columns_take_as_long_as_the_vectors_that_divide_them(name: str, columns: int, time: float) -> None:
    """With tiles that keep the CPU busy."""
    from tuning.engines.targets import registers

    assert getattr(registers, name).time(28, columns) == pytest.approx(time)
