"""Winograd's algorithm as TensorIR.

The input is cut into tiles that overlap, and each is transformed; then a product of matrices for every place in a tile takes the
place of the convolution, and its results are transformed back to m × m outputs each. MetaSchedule tunes the products. The
transforms are written as it couldn't find them: a whole tile in vectors, in straight-line code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tuning.engines.networks.tensorir import extents, loops, parsed

from .convolutions import INPUT, KERNEL, OUTPUT, Convolution, Matrix

INPUT_BLOCK, PRODUCT_BLOCK, OUTPUT_BLOCK = "winograd_input", "winograd_matmul", "winograd_output"
"""Blocks, and the rules that schedule them."""
IN_PARTS, NO_RULE = "winograd_in_parts", "None"
"""The rule of the last block that schedules all of them, and TVM's name for none."""


def function(conv: Convolution) -> Any:
    """The convolution of an input with the `weights`, both float32. Elementwise functions may be fused after it."""
    return parsed(_source(conv, _in_parts(conv) if conv.in_parts else _step_by_step(conv)))


class _Tiles(NamedTuple):
    """How the transforms count the tiles."""

    axes: str
    """A letter for each of a block's axes over tiles."""
    extents: tuple[int, ...]
    number: str
    """The tile's, by the axes; likewise below."""
    image: str
    row: str
    column: str
    places: str
    """What precedes a place in the tile, in an index."""
    rules: tuple[str, str, str]
    """Of the three blocks."""


def _step_by_step(conv: Convolution) -> _Tiles:
    """All tiles are transformed, then multiplied, then transformed back."""
    rows, columns = conv.tiles(conv.m)
    number = f"(vn * {rows} + vh) * {columns} + vw"
    rules = (INPUT_BLOCK, PRODUCT_BLOCK, OUTPUT_BLOCK)
    return _Tiles("nhw", (conv.batch, rows, columns), number, "vn", "vh", "vw", "", rules)


def _in_parts(conv: Convolution) -> _Tiles:
    """Some tiles may go through all three steps before the others do.

    Tiles are one axis, so that a part of them can be computed where the next step needs them. TVM finds out which part that is from the
    indices of what a block writes, each of which must depend on an axis: for that of places there is an axis of one.
    """
    rows, columns = conv.tiles(conv.m)
    image, row, column = f"(vt // {rows * columns})", f"(vt // {columns} % {rows})", f"(vt % {columns})"
    extents_ = (1, conv.batch * rows * columns)
    return _Tiles("pt", extents_, "vt", image, row, column, f"vp * {conv.places} + ", (NO_RULE, NO_RULE, IN_PARTS))


def _source(conv: Convolution, tiles: _Tiles) -> Iterator[str]:
    m, lanes, number, (rows, columns) = conv.m, conv.lanes, math.prod(tiles.extents), conv.tiles(conv.m)
    of_input, of_product, of_output = tiles.rules
    yield "# from tvm.script import tirx as T"
    yield "@T.prim_func(private=True, s_tir=True)"
    yield (
        f'def conv(x: T.Buffer(({extents(*conv.input.values())}), "float32"), '
        f'weights: T.Buffer(({extents(conv.places, conv.channels, conv.filters)}), "float32"), '
        f'y: T.Buffer(({extents(*conv.output.values())}), "float32")):'
    )
    # As a function whose outputs elementwise ones may be fused with: TVM can't tell from the blocks.
    yield '    T.func_attr({"tirx.noalias": True, "op_pattern": 4})'
    yield f"    inputs = T.sblock_alloc_buffer(({extents(conv.places, number, conv.channels)}))"
    yield f"    products = T.sblock_alloc_buffer(({extents(conv.places, number, conv.filters)}))"
    yield f"    outputs = T.sblock_alloc_buffer(({extents(conv.batch, rows * m, columns * m, conv.filters)}))"
    axes, sizes = f"{tiles.axes}c", (conv.places, number, conv.filters, conv.channels)
    yield from loops(INPUT_BLOCK, axes, (*tiles.extents, conv.channels // lanes), _input(conv, tiles, of_input))
    yield from loops(PRODUCT_BLOCK, "ptfc", sizes, _product(of_product), "SSSR")
    yield from loops(OUTPUT_BLOCK, axes, (*tiles.extents, conv.filters // lanes), _output(conv, tiles, of_output))
    y, value = f"y[{conv.at(n='vn', h='vh', w='vw', c='vc')}]", "outputs[vn, vh, vw, vc]"
    crop = [f"T.reads({value})", f"T.writes({y})", f"{y} = {value}"]
    yield from loops("conv2d_winograd", conv.layout.lower(), tuple(conv.output.values()), crop)


def _input(conv: Convolution, tiles: _Tiles, rule: str) -> list[str]:
    """Transforms some channels of a tile, first its columns, then its rows."""
    m, lanes, side, (top, left, _, _) = conv.m, conv.lanes, conv.m + KERNEL - 1, conv.padding
    first_row, first_column = f"{tiles.row} * {m}", f"{tiles.column} * {m}"
    h, w = f"{first_row} + row - {top}", f"{first_column} + column - {left}"
    inside = f"0 <= {h} and {h} < {conv.height} and 0 <= {w} and {w} < {conv.width}"
    channels = f"vc * {lanes}"
    region = conv.at(
        n=tiles.image,
        h=f"{first_row} - {top}:{first_row} - {top} + {side}",
        w=f"{first_column} - {left}:{first_column} - {left} + {side}",
        c=f"{channels}:{channels} + {lanes}",
    )
    value = f"x[{conv.at(n=tiles.image, h=h, w=w, c=f'{channels} + l')}]"
    places = f"{tiles.places}0:{tiles.places}{side * side}"
    return [
        f"T.reads(x[{region}])",
        f"T.writes(inputs[{places}, {tiles.number}, {channels}:{channels} + {lanes}])",
        f'T.sblock_attr({{"schedule_rule": "{rule}"}})',
        f'd = T.sblock_alloc_buffer(({extents(side, lanes)}), scope="local")',
        f't = T.sblock_alloc_buffer(({extents(side, side, lanes)}), scope="local")',
        *_unrolled("column", side),
        *(f"    {line}" for line in _unrolled("row", side)),
        *_vector(lanes, 2, [f"d[row, l] = T.if_then_else({inside}, {value}, T.float32(0))"]),
        *_vector(lanes, 1, _multiplied(INPUT[m], "t[{}, column, l]", "d[{}, l]")),
        *_unrolled("row", side),
        *_vector(
            lanes,
            1,
            _multiplied(
                INPUT[m],
                f"inputs[{tiles.places}row * {side} + {{}}, {tiles.number}, {channels} + l]",
                "t[row, {}, l]",
            ),
        ),
    ]


def _output(conv: Convolution, tiles: _Tiles, rule: str) -> list[str]:
    """Transforms some filters of a tile back."""
    m, lanes, side, filters = conv.m, conv.lanes, conv.m + KERNEL - 1, f"vc * {conv.lanes}"
    row, column = f"{tiles.row} * {m}", f"{tiles.column} * {m}"
    product = f"products[{{}} * {side} + column, {tiles.number}, {filters} + l]"
    output = f"outputs[{tiles.image}, {row} + row, {column} + {{}}, {filters} + l]"
    region = f"{row}:{row} + {m}, {column}:{column} + {m}, {filters}:{filters} + {lanes}"
    return [
        f"T.reads(products[0:{side * side}, {tiles.number}, {filters}:{filters} + {lanes}])",
        f"T.writes(outputs[{tiles.image}, {region}])",
        f'T.sblock_attr({{"schedule_rule": "{rule}"}})',
        f't = T.sblock_alloc_buffer(({extents(m, side, lanes)}), scope="local")',
        *_unrolled("column", side),
        *_vector(lanes, 1, _multiplied(OUTPUT[m], "t[{}, column, l]", product)),
        *_unrolled("row", m),
        *_vector(lanes, 1, _multiplied(OUTPUT[m], output, "t[row, {}, l]")),
    ]


def _product(rule: str) -> list[str]:
    return [
        "T.reads(inputs[vp, vt, vc], weights[vp, vc, vf])",
        "T.writes(products[vp, vt, vf])",
        f'T.sblock_attr({{"schedule_rule": "{rule}"}})',
        "with T.init():",
        "    products[vp, vt, vf] = T.float32(0)",
        "products[vp, vt, vf] = products[vp, vt, vf] + inputs[vp, vt, vc] * weights[vp, vc, vf]",
    ]


def _unrolled(axis: str, extent: int) -> list[str]:
    return [f"for {axis} in T.unroll({extents(extent)}):"]


def _vector(lanes: int, depth: int, statements: Sequence[str]) -> list[str]:
    lines = [f"for l in T.vectorized({extents(lanes)}):", *(f"    {statement}" for statement in statements)]
    return ["    " * depth + line for line in lines]


def _multiplied(matrix: Matrix, to: str, term: str) -> list[str]:
    """A statement for each row of the matrix; `to` and `term` are templates of elements."""
    return [f"{to.format(nth)} = {_sum(row, term)}" for nth, row in enumerate(matrix)]


def _sum(factors: Sequence[float], term: str) -> str:
    """The sum of the terms with these factors."""
    found = [(factor, term.format(nth)) for nth, factor in enumerate(factors) if factor]
    return " + ".join(text if factor == 1 else f"T.float32({float(factor)}) * {text}" for factor, text in found)
