"""Winograd's algorithm as TensorIR.

The input is cut into tiles that overlap, and each is transformed; then a product of matrices for every place in a tile takes the
place of the convolution, and its results are transformed back to m × m outputs each. MetaSchedule tunes the products. The
transforms are written as it couldn't find them: a whole tile in vectors, in straight-line code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from tvm.script import from_source

from tuning.engines.networks.tensorir import extents, loops

from .convolutions import INPUT, KERNEL, OUTPUT, Convolution, Matrix

INPUT_BLOCK, PRODUCT_BLOCK, OUTPUT_BLOCK = "winograd_input", "winograd_matmul", "winograd_output"
"""Blocks, and the rules that schedule them."""
IN_PARTS, NO_RULE = "winograd_in_parts", "None"
"""The rule of the last block that schedules all of them, and TVM's name for none."""


def function(conv: Convolution) -> Any:
    """The convolution of an input with the `weights`, both float32. Elementwise functions may be fused after it."""
    return from_source("\n".join((_InParts if conv.in_parts else _StepByStep)(conv).source()))


class _Function(ABC):
    """The function's source, but for how tiles are counted and how transformed inputs lie in memory."""

    axes: str
    """Letters of the axes over tiles."""
    rules: Sequence[str]
    """Of the three blocks."""

    def __init__(self, conv: Convolution) -> None:
        self.conv = conv
        self.rows, self.columns = conv.tiles(conv.m)
        self.tiles = conv.batch * self.rows * self.columns

    @property
    @abstractmethod
    def counts(self) -> Sequence[int]:
        """Extents of the axes over tiles."""

    @property
    @abstractmethod
    def tile(self) -> str:
        """The number of a block's tile, by its axes."""

    @property
    @abstractmethod
    def corner(self) -> tuple[str, str, str]:
        """Which image the tile belongs to, and which of its rows and columns of tiles."""

    @property
    @abstractmethod
    def inputs(self) -> Sequence[int]:
        """The shape of the transformed inputs."""

    @property
    @abstractmethod
    def written(self) -> str:
        """Of these, what a tile's channels become."""

    @abstractmethod
    def at_place(self, place: str) -> str:
        """Of these, the one at a place in the tile, in lane `l`."""

    @abstractmethod
    def products(self, rule: str) -> Iterator[str]: ...

    def source(self) -> Iterator[str]:
        conv, tiles = self.conv, self.tiles
        m, lanes = conv.m, conv.lanes
        of_input, of_product, of_output = self.rules
        yield "# from tvm.script import tirx as T"
        yield "@T.prim_func(private=True, s_tir=True)"
        yield (
            f'def conv(x: T.Buffer(({extents(*conv.input.values())}), "float32"), '
            f'weights: T.Buffer(({extents(conv.places, conv.channels, conv.filters)}), "float32"), '
            f'y: T.Buffer(({extents(*conv.output.values())}), "float32")):'
        )
        # As a function whose outputs elementwise ones may be fused with: TVM can't tell from the blocks.
        yield '    T.func_attr({"tirx.noalias": True, "op_pattern": 4})'
        yield f"    inputs = T.sblock_alloc_buffer(({extents(*self.inputs)}))"
        yield f"    products = T.sblock_alloc_buffer(({extents(conv.places, tiles, conv.filters)}))"
        yield f"    outputs = T.sblock_alloc_buffer(({extents(conv.batch, self.rows * m, self.columns * m, conv.filters)}))"
        axes = f"{self.axes}c"
        yield from loops(INPUT_BLOCK, axes, (*self.counts, conv.channels // lanes), self._input(of_input))
        yield from self.products(of_product)
        yield from loops(OUTPUT_BLOCK, axes, (*self.counts, conv.filters // lanes), self._output(of_output))
        y, value = f"y[{conv.at(n='vn', h='vh', w='vw', c='vc')}]", "outputs[vn, vh, vw, vc]"
        crop = [f"T.reads({value})", f"T.writes({y})", f"{y} = {value}"]
        yield from loops("conv2d_winograd", conv.layout.lower(), tuple(conv.output.values()), crop)

    def _input(self, rule: str) -> list[str]:
        """Transforms some channels of a tile, first its columns, then its rows."""
        conv, lanes, (image, row, column) = self.conv, self.conv.lanes, self.corner
        m, side, (top, left, _, _) = conv.m, conv.m + KERNEL - 1, conv.padding
        h, w = f"{row} * {m} + row - {top}", f"{column} * {m} + column - {left}"
        inside = f"0 <= {h} and {h} < {conv.height} and 0 <= {w} and {w} < {conv.width}"
        corner, channels = (f"{row} * {m} - {top}", f"{column} * {m} - {left}"), f"vc * {lanes}"
        region = conv.at(
            n=image,
            h=f"{corner[0]}:{corner[0]} + {side}",
            w=f"{corner[1]}:{corner[1]} + {side}",
            c=f"{channels}:{channels} + {lanes}",
        )
        value = f"x[{conv.at(n=image, h=h, w=w, c=f'{channels} + l')}]"
        return [
            f"T.reads(x[{region}])",
            f"T.writes({self.written})",
            f'T.sblock_attr({{"schedule_rule": "{rule}"}})',
            f'd = T.sblock_alloc_buffer(({extents(side, lanes)}), scope="local")',
            f't = T.sblock_alloc_buffer(({extents(side, side, lanes)}), scope="local")',
            *_unrolled("column", side),
            *(f"    {line}" for line in _unrolled("row", side)),
            *_vector(lanes, 2, [f"d[row, l] = T.if_then_else({inside}, {value}, T.float32(0))"]),
            *_vector(lanes, 1, _multiplied(INPUT[m], "t[{}, column, l]", "d[{}, l]")),
            *_unrolled("row", side),
            *_vector(lanes, 1, _multiplied(INPUT[m], self.at_place(f"row * {side} + {{}}"), "t[row, {}, l]")),
        ]

    def _output(self, rule: str) -> list[str]:
        """Transforms some filters of a tile back."""
        m, lanes, tile, (image, row, column) = self.conv.m, self.conv.lanes, self.tile, self.corner
        side, filters = m + KERNEL - 1, f"vc * {lanes}"
        product = f"products[{{}} * {side} + column, {tile}, {filters} + l]"
        output = f"outputs[{image}, {row} * {m} + row, {column} * {m} + {{}}, {filters} + l]"
        region = f"{row} * {m}:{row} * {m} + {m}, {column} * {m}:{column} * {m} + {m}, {filters}:{filters} + {lanes}"
        return [
            f"T.reads(products[0:{side * side}, {tile}, {filters}:{filters} + {lanes}])",
            f"T.writes(outputs[{image}, {region}])",
            f'T.sblock_attr({{"schedule_rule": "{rule}"}})',
            f't = T.sblock_alloc_buffer(({extents(m, side, lanes)}), scope="local")',
            *_unrolled("column", side),
            *_vector(lanes, 1, _multiplied(OUTPUT[m], "t[{}, column, l]", product)),
            *_unrolled("row", m),
            *_vector(lanes, 1, _multiplied(OUTPUT[m], output, "t[row, {}, l]")),
        ]


class _StepByStep(_Function):
    """All tiles are transformed, then multiplied, then transformed back."""

    axes = "nhw"
    rules = (INPUT_BLOCK, PRODUCT_BLOCK, OUTPUT_BLOCK)
    corner = ("vn", "vh", "vw")

    @property
    def counts(self) -> Sequence[int]:
        return self.conv.batch, self.rows, self.columns

    @property
    def tile(self) -> str:
        return f"(vn * {self.rows} + vh) * {self.columns} + vw"

    @property
    def inputs(self) -> Sequence[int]:
        return self.conv.places, self.tiles, self.conv.channels

    @property
    def written(self) -> str:
        lanes = self.conv.lanes
        return f"inputs[0:{self.conv.places}, {self.tile}, vc * {lanes}:vc * {lanes} + {lanes}]"

    def at_place(self, place: str) -> str:
        return f"inputs[{place}, {self.tile}, vc * {self.conv.lanes} + l]"

    def products(self, rule: str) -> Iterator[str]:
        sizes = (self.conv.places, self.tiles, self.conv.filters, self.conv.channels)
        yield from loops(
            PRODUCT_BLOCK, "ptfc", sizes, _product(rule, "inputs[vp, vt, vc]", "weights[vp, vc, vf]"), "SSSR"
        )


class _InParts(_Function):
    """Some tiles may go through all three steps before the others do.

    Tiles are one axis, so that a part of them can be computed where the next step needs them. TVM finds out which part that is from the
    indices of what a block writes, each of which must depend on an axis: for that of places there is an axis of one.
    """

    axes = "pt"
    rules = (NO_RULE, NO_RULE, IN_PARTS)
    tile = "vt"

    @property
    def counts(self) -> Sequence[int]:
        return 1, self.tiles

    @property
    def corner(self) -> tuple[str, str, str]:
        rows, columns = self.rows, self.columns
        return f"(vt // {rows * columns})", f"(vt // {columns} % {rows})", f"(vt % {columns})"

    @property
    def inputs(self) -> Sequence[int]:
        return self.conv.places, self.tiles, self.conv.channels

    @property
    def written(self) -> str:
        places, lanes = self.conv.places, self.conv.lanes
        return f"inputs[vp * {places}:vp * {places} + {places}, vt, vc * {lanes}:vc * {lanes} + {lanes}]"

    def at_place(self, place: str) -> str:
        return f"inputs[vp * {self.conv.places} + {place}, vt, vc * {self.conv.lanes} + l]"

    def products(self, rule: str) -> Iterator[str]:
        sizes = (self.conv.places, self.tiles, self.conv.filters, self.conv.channels)
        yield from loops(
            PRODUCT_BLOCK, "ptfc", sizes, _product(rule, "inputs[vp, vt, vc]", "weights[vp, vc, vf]"), "SSSR"
        )


def _product(rule: str, one: str, other: str) -> list[str]:
    return [
        f"T.reads({one}, {other})",
        "T.writes(products[vp, vt, vf])",
        f'T.sblock_attr({{"schedule_rule": "{rule}"}})',
        "with T.init():",
        "    products[vp, vt, vf] = T.float32(0)",
        f"products[vp, vt, vf] = products[vp, vt, vf] + {one} * {other}",
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
