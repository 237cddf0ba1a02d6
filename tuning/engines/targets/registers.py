"""The vector registers of a target's CPU."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .resolving import architecture, features

WIDEST = 8
"""Vectors in a row of a tile, at most."""
SLOWEST = 0.8
"""Tiles aren't worth trying that are slower than this part of the fastest one."""
MOST_VECTORS = 3
"""How many are added to a row, at most, so that faster tiles divide it."""
BUSY = 8
"""Sums that don't wait for each other, as many as keep two units busy that take four cycles."""
FARTHER = 0.5
"""How fast vectors are read from the second cache, compared with the first."""
FEWEST_LANES = 4
"""Of vectors that are worth it."""


class Tile(NamedTuple):
    """Sums that are in registers at once."""

    rows: int
    vectors: int
    """In each row."""

    @property
    def sums(self) -> int:
        return self.rows * self.vectors

    @property
    def reuse(self) -> float:
        """Multiplications for each number or vector that is read."""
        return self.sums / (self.rows + self.vectors)

    @property
    def speed(self) -> tuple[float, float]:
        """Orders tiles: what part of its multiplications a CPU does that reads two vectors per cycle and multiplies two; among equals, the reuse.

        Of many rows of a single vector, LLVM reads the numbers too early to keep them in registers. A single row uses each vector once, and wide ones
        don't stay in the first cache.
        """
        readable = BUSY / self.rows if self.vectors == 1 else 1.0
        near = FARTHER if self.rows == 1 else 1.0
        return min(1.0, self.sums / BUSY, self.reuse * min(1.0, readable, near)), self.reuse


class Registers(NamedTuple):
    """Vector registers for float32."""

    lanes: int
    """Numbers in each."""
    number: int

    @property
    def widths(self) -> list[int]:
        """Lanes of whole vectors, and of halves of them."""
        return [one for one in (self.lanes, self.lanes // 2) if one >= FEWEST_LANES]

    def width(self, columns: int) -> int | None:
        """Lanes of the widest vectors that divide so many columns; None if there are none."""
        return next((one for one in self.widths if columns % one == 0), None)

    def rows(self, width: int) -> int:
        """How many rows of so many vectors of sums fit, beside the vectors that a row is multiplied by and the number that multiplies them.

        AVX-512 multiplies by a number in memory.
        """
        multiplier = 0 if self.lanes == AVX512.lanes else 1
        return max((self.number - width - multiplier) // width, 1)

    def tiles(self, rows: int, vectors: int) -> list[Tile]:
        """Those worth trying that fit and divide so many rows of so many vectors, the fastest first."""
        fit = [
            Tile(height, width) for width in divisors(vectors, WIDEST) for height in divisors(rows, self.rows(width))
        ]
        fastest, _ = max(tile.speed for tile in fit)
        worth = (tile for tile in fit if tile.speed[0] >= SLOWEST * fastest)
        return sorted(worth, key=lambda tile: tile.speed, reverse=True)

    def speed(self, rows: int, vectors: int) -> float:
        """What part of its multiplications a CPU does with the fastest tile that divides so many rows of so many vectors."""
        return self.tiles(rows, vectors)[0].speed[0]

    def time(self, rows: int, columns: int) -> float:
        """What the multiplications of so many rows of columns take for each row, in those of whole vectors; infinite if no vectors divide the columns.

        Two halves of AVX-512's vectors take as long as a whole one, as on a Zen 4, which has units of 256 bits.
        """
        lanes = self.width(columns)
        if lanes is None:
            return math.inf
        share = lanes / self.lanes if self.lanes == AVX512.lanes else 1.0
        return share * columns / lanes / self.speed(rows, columns // lanes)

    def whole(self, rows: int, columns: int, most: int) -> int | None:
        """How many columns, from so many to `most`, take the least time in whole vectors; None if these aren't whole vectors."""
        fewest = -(-columns // self.lanes)
        offered = range(fewest, min(fewest + MOST_VECTORS, most // self.lanes) + 1)
        best = min(offered, key=lambda vectors: vectors / self.speed(rows, vectors), default=None)
        return None if best is None else best * self.lanes


AVX512, AVX, SSE = Registers(16, 32), Registers(8, 16), Registers(4, 16)
NEON = Registers(4, 32)


def divisors(extent: int, most: int) -> list[int]:
    """Up to `most`, in ascending order."""
    return [one for one in range(1, min(extent, most) + 1) if extent % one == 0]


def registers(target: Any) -> Registers | None:
    """Those of a CPU target; None if they aren't known, and for GPUs."""
    if str(target.kind.name) != "llvm":
        return None
    name = architecture(target)
    if name == "aarch64":
        return NEON
    if name != "x86_64":
        return None
    known = features(target)
    if "avx512f" in known:
        return AVX512
    return AVX if "avx" in known else SSE
