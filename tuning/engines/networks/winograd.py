"""3 × 3 convolutions by Winograd's algorithm F(m × m, 3 × 3): fewer multiplications, but more additions and memory.

The input is cut into tiles that overlap, and each is transformed; then a product of matrices for every place in a tile takes the
place of the convolution, and its results are transformed back to m × m outputs each. MetaSchedule tunes the products. The
transforms are written as it couldn't find them: a whole tile in vectors, in straight-line code.

See Lavin and Gray, https://arxiv.org/abs/1509.09308.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import indent
from typing import Any, Literal, NamedTuple

import numpy as np
import tvm_ffi
from tvm.script import from_source

from .tensorir import extents, keep, loops

FEWEST_TILES = 9
"""With fewer tiles a product has so few rows that reading its weights takes longest, of which a larger m has more."""
LANES = 16
"""Channels that are transformed together; their number must be a multiple."""
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
INPUT_BLOCK, PRODUCT_BLOCK, OUTPUT_BLOCK = "winograd_input", "winograd_matmul", "winograd_output"
"""Blocks, and the rules that schedule them."""


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

    def at(self, **indices: str) -> str:
        """The index of an element of input or output."""
        return ", ".join(indices[axis.lower()] for axis in self.layout)


def weights(conv: Convolution, kernel: Any) -> Any:
    """The transformed weights of a kernel (3, 3, channels, filters), as (place in a tile, channels, filters)."""
    matrix = np.array(WEIGHTS[conv.m])
    transformed = np.einsum("ai,ijcf,bj->abcf", matrix, kernel.astype("float64"), matrix)
    return np.ascontiguousarray(transformed.reshape(-1, *kernel.shape[2:]), kernel.dtype)


def function(conv: Convolution) -> Any:
    """The convolution of an input with the `weights`, both float32. Elementwise functions may be fused after it."""
    return from_source("\n".join(_source(conv)))


def _source(conv: Convolution) -> Iterator[str]:
    m, batch, filters, (rows, columns) = conv.m, conv.batch, conv.filters, conv.tiles(conv.m)
    side = m + KERNEL - 1
    tiles, places = batch * rows * columns, side * side
    yield "# from tvm.script import tirx as T"
    yield "@T.prim_func(private=True, s_tir=True)"
    yield (
        f'def conv(x: T.Buffer(({extents(*conv.input.values())}), "float32"), '
        f'weights: T.Buffer(({extents(places, conv.channels, filters)}), "float32"), '
        f'y: T.Buffer(({extents(*conv.output.values())}), "float32")):'
    )
    # As a function whose outputs elementwise ones may be fused with: TVM can't tell from the blocks.
    yield '    T.func_attr({"tirx.noalias": True, "op_pattern": 4})'
    yield f"    inputs = T.sblock_alloc_buffer(({extents(places, tiles, conv.channels)}))"
    yield f"    products = T.sblock_alloc_buffer(({extents(places, tiles, filters)}))"
    yield f"    outputs = T.sblock_alloc_buffer(({extents(batch, rows * m, columns * m, filters)}))"
    tile = f"(vn * {rows} + vh) * {columns} + vw"
    axes = (batch, rows, columns)
    yield from loops(INPUT_BLOCK, "nhwc", (*axes, conv.channels // LANES), _input(conv, m, tile))
    yield indent(_PRODUCTS.format(block=PRODUCT_BLOCK, extents=extents(places, tiles, filters, conv.channels)), "    ")
    yield from loops(OUTPUT_BLOCK, "nhwc", (*axes, filters // LANES), _output(m, tile))
    y, value = f"y[{conv.at(n='vn', h='vh', w='vw', c='vc')}]", "outputs[vn, vh, vw, vc]"
    crop = [f"T.reads({value})", f"T.writes({y})", f"{y} = {value}"]
    yield from loops("conv2d_winograd", conv.layout.lower(), tuple(conv.output.values()), crop)


_PRODUCTS = """\
for place, tile, filter, channel in T.grid({extents}):
    with T.sblock("{block}"):
        vp, vt, vf, vc = T.axis.remap("SSSR", [place, tile, filter, channel])
        T.reads(inputs[vp, vt, vc], weights[vp, vc, vf])
        T.writes(products[vp, vt, vf])
        T.sblock_attr({{"schedule_rule": "{block}"}})
        with T.init():
            products[vp, vt, vf] = T.float32(0)
        products[vp, vt, vf] = products[vp, vt, vf] + inputs[vp, vt, vc] * weights[vp, vc, vf]"""


def _input(conv: Convolution, m: int, tile: str) -> list[str]:
    """Transforms some channels of a tile, first its columns, then its rows."""
    side, (top, left, _, _) = m + KERNEL - 1, conv.padding
    h, w = f"vh * {m} + row - {top}", f"vw * {m} + column - {left}"
    inside = f"0 <= {h} and {h} < {conv.height} and 0 <= {w} and {w} < {conv.width}"
    corner, channels = (f"vh * {m} - {top}", f"vw * {m} - {left}"), f"vc * {LANES}"
    region = conv.at(
        n="vn",
        h=f"{corner[0]}:{corner[0]} + {side}",
        w=f"{corner[1]}:{corner[1]} + {side}",
        c=f"{channels}:{channels} + {LANES}",
    )
    value = f"x[{conv.at(n='vn', h=h, w=w, c=f'{channels} + l')}]"
    return [
        f"T.reads(x[{region}])",
        f"T.writes(inputs[0:{side * side}, {tile}, {channels}:{channels} + {LANES}])",
        f'T.sblock_attr({{"schedule_rule": "{INPUT_BLOCK}"}})',
        f'd = T.sblock_alloc_buffer(({extents(side, LANES)}), scope="local")',
        f't = T.sblock_alloc_buffer(({extents(side, side, LANES)}), scope="local")',
        *_unrolled("column", side),
        *(f"    {line}" for line in _unrolled("row", side)),
        *_vector(2, [f"d[row, l] = T.if_then_else({inside}, {value}, T.float32(0))"]),
        *_vector(1, _multiplied(INPUT[m], "t[{}, column, l]", "d[{}, l]")),
        *_unrolled("row", side),
        *_vector(1, _multiplied(INPUT[m], f"inputs[row * {side} + {{}}, {tile}, {channels} + l]", "t[row, {}, l]")),
    ]


def _output(m: int, tile: str) -> list[str]:
    """Transforms some filters of a tile back."""
    side, filters = m + KERNEL - 1, f"vc * {LANES}"
    product = f"products[{{}} * {side} + column, {tile}, {filters} + l]"
    output = f"outputs[vn, vh * {m} + row, vw * {m} + {{}}, {filters} + l]"
    region = f"vh * {m}:vh * {m} + {m}, vw * {m}:vw * {m} + {m}, {filters}:{filters} + {LANES}"
    return [
        f"T.reads(products[0:{side * side}, {tile}, {filters}:{filters} + {LANES}])",
        f"T.writes(outputs[vn, {region}])",
        f'T.sblock_attr({{"schedule_rule": "{OUTPUT_BLOCK}"}})',
        f't = T.sblock_alloc_buffer(({extents(m, side, LANES)}), scope="local")',
        *_unrolled("column", side),
        *_vector(1, _multiplied(OUTPUT[m], "t[{}, column, l]", product)),
        *_unrolled("row", m),
        *_vector(1, _multiplied(OUTPUT[m], output, "t[row, {}, l]")),
    ]


def _unrolled(axis: str, extent: int) -> list[str]:
    return [f"for {axis} in T.unroll({extents(extent)}):"]


def _vector(depth: int, statements: Sequence[str]) -> list[str]:
    lines = [f"for l in T.vectorized({extents(LANES)}):", *(f"    {statement}" for statement in statements)]
    return ["    " * depth + line for line in lines]


def _multiplied(matrix: Matrix, to: str, term: str) -> list[str]:
    """A statement for each row of the matrix; `to` and `term` are templates of elements."""
    return [f"{to.format(nth)} = {_sum(row, term)}" for nth, row in enumerate(matrix)]


def _sum(factors: Sequence[float], term: str) -> str:
    """The sum of the terms with these factors."""
    found = [(factor, term.format(nth)) for nth, factor in enumerate(factors) if factor]
    return " + ".join(text if factor == 1 else f"T.float32({float(factor)}) * {text}" for factor, text in found)


def _parallel_tiles(schedule: Any, block: Any) -> Any:
    """Divide the tiles of a transform among threads, and return the loop within."""
    *tiles, channels = schedule.get_loops(block)
    fused = schedule.fuse(*tiles)
    schedule.parallel(fused)
    keep(schedule, fused, channels)
    return channels


def _schedule_products(schedule: Any, block: Any) -> list[Any]:
    """A few tiles by a few vectors of filters are summed in registers; the search chooses how many of each.

    TVM's own rule splits each loop into four at random, and few of these sums fit into registers.
    """
    place, tile, filters, channel = schedule.get_loops(block)
    tile, tiles = schedule.split(tile, schedule.sample_perfect_tile(tile, n=2, max_innermost_factor=16))
    vector, lanes = schedule.split(filters, [None, LANES])
    vector, vectors = schedule.split(vector, schedule.sample_perfect_tile(vector, n=2, max_innermost_factor=4))
    channel, channels = schedule.split(channel, schedule.sample_perfect_tile(channel, n=2, max_innermost_factor=8))
    schedule.reorder(place, vector, tile, channel, channels, tiles, vectors, lanes)
    result = schedule.cache_write(block, 0, "local")
    # Whatever is drawn, there must be as many loops.
    schedule.reverse_compute_at(result, tile, preserve_unit_loops=True)
    stored = schedule.get_loops(result)[-1]
    stored, stored_lanes = schedule.split(stored, [None, LANES])
    outermost = schedule.fuse(place, vector)
    schedule.parallel(outermost)
    for loop in (channels, tiles, vectors, *schedule.get_loops(result)[2:-1]):
        schedule.unroll(loop)
    for loop in (lanes, stored_lanes):
        schedule.vectorize(loop)
    keep(schedule, outermost, lanes, stored_lanes)
    return [schedule]


def _schedule_input(schedule: Any, block: Any) -> list[Any]:
    _parallel_tiles(schedule, block)
    return [schedule]


def _schedule_output(schedule: Any, block: Any) -> list[Any]:
    """What is fused after the convolution is computed tile by tile."""
    (last,) = schedule.get_consumers(block)
    while following := schedule.get_consumers(last):
        schedule.compute_inline(last)
        (last,) = following
    schedule.reverse_compute_at(last, _parallel_tiles(schedule, block), preserve_unit_loops=True)
    *outer, _ = schedule.get_loops(last)[2:]
    for loop in outer:
        schedule.unroll(loop)
    keep(schedule, *outer)
    return [schedule]


for _block, _rule in (
    (INPUT_BLOCK, _schedule_input),
    (PRODUCT_BLOCK, _schedule_products),
    (OUTPUT_BLOCK, _schedule_output),
):
    # TVM looks the rule of an annotated block up by this name.
    tvm_ffi.register_global_func(f"s_tir.meta_schedule.cpu.{_block}", _rule, override=True)
