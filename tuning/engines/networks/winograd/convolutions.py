"""3 × 3 convolutions by Winograd's algorithm F(m × m, 3 × 3): fewer multiplications, but more additions and memory.

See Lavin and Gray, https://arxiv.org/abs/1509.09308.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from tuning.engines.targets.registers import AVX, AVX512, Registers

FEWEST_TILES = 9
"""With fewer tiles a product has so few rows that reading its weights takes longest, of which a larger m has more."""
KERNEL = 3
Matrix = Sequence[Sequence[float]]
INPUT: dict[int, Matrix] = {
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
"""What a tile of the input is multiplied by from the left, and, transposed, from the right; likewise below."""
WEIGHTS: dict[int, Matrix] = {
    2: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}
OUTPUT: dict[int, Matrix] = {
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
}


class Convolution(NamedTuple):
    """A 3 × 3 convolution with stride 1, of float32."""

    batch: int
    height: int
    width: int
    channels: int
    filters: int
    padding: tuple[int, int, int, int]
    """At the top, left, bottom and right."""
    layout: Literal["NHWC", "NCHW"]
    """Of input and output."""
    lanes: int
    """Channels that are transformed together; their numbers are multiples."""
    in_parts: bool
    """Whether some tiles can go through all steps before the others do."""

    @property
    def input(self) -> dict[str, int]:
        """The input's extents by axis, in the order of the layout; likewise below."""
        extents = {"N": self.batch, "H": self.height, "W": self.width, "C": self.channels}
        return {axis: extents[axis] for axis in self.layout}

    @property
    def output(self) -> dict[str, int]:
        """The output's extents."""
        top, left, bottom, right = self.padding
        height, width = self.height + top + bottom - KERNEL + 1, self.width + left + right - KERNEL + 1
        extents = {"N": self.batch, "H": height, "W": width, "C": self.filters}
        return {axis: extents[axis] for axis in self.layout}

    @property
    def m(self) -> int:
        """How many outputs a tile has in height and width: 4, or 2 where there are too few tiles. Larger ones round too much."""
        return 4 if self.batch * math.prod(self.tiles(4)) >= FEWEST_TILES else 2

    def tiles(self, m: int) -> tuple[int, int]:
        """How many there are in height and width."""
        return -(-self.output["H"] // m), -(-self.output["W"] // m)

    @property
    def places(self) -> int:
        """In a tile, as many as it has products of matrices."""
        return int((self.m + KERNEL - 1) ** 2)

    def at(self, **indices: str) -> str:
        """The index of an element of input or output."""
        return ", ".join(indices[axis.lower()] for axis in self.layout)


def lanes_of(registers: Registers | None, *, in_parts: bool) -> int:
    """Channels that fit a vector of the CPU; of vectors shorter than AVX's, several. As in earlier versions unless `in_parts`."""
    return registers.lanes if in_parts and registers and registers.lanes >= AVX.lanes else AVX512.lanes


def weights(conv: Convolution, kernel: Any) -> Any:
    """The transformed weights of a kernel (3, 3, channels, filters), as (place in a tile, channels, filters)."""
    matrix = np.array(WEIGHTS[conv.m])
    transformed = np.einsum("ai,ijcf,bj->abcf", matrix, kernel.astype("float64"), matrix)
    return np.ascontiguousarray(transformed.reshape(-1, *kernel.shape[2:]), kernel.dtype)
