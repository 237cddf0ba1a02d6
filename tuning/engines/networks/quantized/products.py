"""Products of 8-bit matrices, and convolutions, that are summed in 32 bits by a CPU's dot-product instructions.

Such an instruction multiplies four consecutive inputs of a row by four weights of each of several outputs. So weights are packed in fours,
data has its channels last, and what instructions need beyond that (channels in fours, the padding of a convolution) is done by
copying the data first. MetaSchedule chooses how many rows by how many vectors of outputs are summed in registers, as for `winograd`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tvm_ffi

from tuning.engines.networks.tensorir import extents, keep, last_after, loops, parsed
from tuning.engines.targets.dot_products import FOUR, INSTRUCTIONS, Instruction

MOST_ROWS, MOST_VECTORS, MOST_FOURS = 16, 4, 4
"""Rows and vectors of outputs that are summed together, and inputs in fours that are unrolled, at most."""
GOOD_ROWS = range(4, 13)
"""A number of rows without a divisor among these is padded, since few rows at a time would read the weights too often."""
COPY_BLOCK, PRODUCT_BLOCK, RESULT_BLOCK = "int8_copy", "int8_product", "int8_result"
"""Blocks. The first two have rules of the same names; that of the product is followed by its instruction."""


class Window(NamedTuple):
    """What of an image an output of a convolution sees, in height and width."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    """At the top, left, bottom and right."""


class Product(NamedTuple):
    """A product of data (…, rows, inputs) and weights (inputs, outputs), or a convolution of images (batch, height, width, inputs)."""

    data: tuple[int, ...]
    """The data's extents."""
    outputs: int
    window: Window | None = None
    """None: a product of matrices."""
    zero_point: int = 0
    """What images are padded with."""

    @property
    def inputs(self) -> int:
        """Channels."""
        return self.data[-1]

    @property
    def rows(self) -> tuple[int, ...]:
        """The result's extents without the last one, its outputs."""
        if self.window is None:
            return self.data[:-1]
        batch, *image, _ = self.data
        kernel, strides, dilation, (top, left, bottom, right) = self.window
        padded = (image[0] + top + bottom, image[1] + left + right)
        sides = zip(padded, kernel, strides, dilation, strict=True)
        return (batch, *((side - (taps - 1) * step - 1) // stride + 1 for side, taps, stride, step in sides))

    @property
    def padded_rows(self) -> int:
        """The last extent of `rows`, and as many more as it takes for a good divisor."""
        rows = self.rows[-1]
        if rows < GOOD_ROWS[0]:
            return rows
        return next(many for many in range(rows, 2 * rows) if any(many % one == 0 for one in GOOD_ROWS))

    @property
    def copied(self) -> tuple[int, ...] | None:
        """The extents of the copy that instructions read, or None if they read the data itself."""
        inputs = -(-self.inputs // FOUR) * FOUR
        if self.window is None:
            extents = (*self.data[:-2], self.padded_rows, inputs)
            return extents if extents != self.data else None
        kernel, strides, dilation, (top, left, bottom, right) = self.window
        batch, height, width, _ = self.data
        seen = (self.padded_rows - 1) * strides[1] + (kernel[1] - 1) * dilation[1] + 1
        extents = (batch, height + top + bottom, max(width + left + right, seen), inputs)
        return extents if extents != self.data else None


def packed(weights: Any, instruction: Instruction) -> Any:
    """Weights of int8 (…, inputs, outputs) as (vectors, …, fours, lanes, 4), with zeros where they are no multiple."""
    *window, inputs, outputs = weights.shape
    fours, vectors = -(-inputs // FOUR), -(-outputs // instruction.lanes)
    padding = [(0, 0)] * len(window) + [(0, fours * FOUR - inputs), (0, vectors * instruction.lanes - outputs)]
    split = np.pad(weights, padding).reshape(*window, fours, FOUR, vectors, instruction.lanes)
    axes = range(split.ndim - 4)
    return np.ascontiguousarray(split.transpose(-2, *axes, -4, -1, -3))


def function(product: Product, instruction: Instruction) -> Any:
    """The product of data and `packed` weights, as int32. Elementwise functions may be fused after it."""
    return parsed(_source(product, instruction))


def _source(product: Product, instruction: Instruction) -> Iterator[str]:
    rows, lanes = product.rows, instruction.lanes
    summed = (*rows[:-1], product.padded_rows)
    vectors, fours = -(-product.outputs // lanes), -(-product.inputs // FOUR)
    window = product.window.kernel if product.window else ()
    kinds = {"data": instruction.data, "weights": "int8", "result": "int32"}
    shapes = {
        "data": product.data,
        "weights": (vectors, *window, fours, lanes, FOUR),
        "result": (*rows, product.outputs),
    }
    yield "# from tvm.script import tirx as T"
    yield "@T.prim_func(private=True, s_tir=True)"
    arguments = (f'{name}: T.Buffer(({extents(*shapes[name])}), "{kind}")' for name, kind in kinds.items())
    yield f"def product({', '.join(arguments)}):"
    # As a function whose outputs elementwise ones may be fused with: TVM can't tell from the blocks.
    yield '    T.func_attr({"tirx.noalias": True, "op_pattern": 4})'
    if product.copied:
        yield f'    copied = T.sblock_alloc_buffer(({extents(*product.copied)}), "{instruction.data}")'
    yield f'    sums = T.sblock_alloc_buffer(({extents(*summed, vectors * lanes)}), "int32")'
    if product.copied:
        yield from _copy(product, product.copied, instruction)
    row = [f"r{nth}" for nth in range(len(rows))]
    taps = [f"t{nth}" for nth in range(len(window))]
    axes = [*row, "v", "l", *taps, "f", "i"]
    kind = "S" * (len(row) + 2) + "R" * (len(taps) + 2)
    place = _seen(product.window, row, taps) if product.window else [f"v{one}" for one in row]
    data = f"{'copied' if product.copied else 'data'}[{', '.join(place)}, vf * {FOUR} + vi]"
    weights = f"weights[{', '.join(f'v{one}' for one in ('v', *taps, 'f', 'l', 'i'))}]"
    total = f"sums[{', '.join(f'v{one}' for one in row)}, vv * {lanes} + vl]"
    body = [
        f"T.reads({data}, {weights})",
        f"T.writes({total})",
        f'T.sblock_attr({{"schedule_rule": "{PRODUCT_BLOCK}_{instruction.intrinsic}"}})',
        "with T.init():",
        f"    {total} = T.int32(0)",
        f'{total} = {total} + T.cast({data}, "int32") * T.cast({weights}, "int32")',
    ]
    yield from loops(PRODUCT_BLOCK, axes, (*summed, vectors, lanes, *window, fours, FOUR), body, kind)
    place = [*(f"v{one}" for one in row), "vo"]
    value, result = f"sums[{', '.join(place)}]", f"result[{', '.join(place)}]"
    body = [f"T.reads({value})", f"T.writes({result})", f"{result} = {value}"]
    yield from loops(RESULT_BLOCK, [*row, "o"], (*rows, product.outputs), body)


def _seen(window: Window, row: Sequence[str], taps: Sequence[str]) -> list[str]:
    """Indices of the place of an image that a tap of the kernel sees."""
    sides = zip(row[1:], taps, window.strides, window.dilation, strict=True)
    return [f"v{row[0]}", *(f"v{one} * {stride} + v{tap} * {step}" for one, tap, stride, step in sides)]


def _copy(product: Product, extents: tuple[int, ...], instruction: Instruction) -> Iterator[str]:
    axes = [f"a{nth}" for nth in range(len(extents))]
    places, conditions = [f"v{axis}" for axis in axes], []
    if product.window:
        top, left, *_ = product.window.padding
        places[1], places[2] = f"va1 - {top}", f"va2 - {left}"
    for place, extent, of in zip(places, extents, product.data, strict=True):
        if extent != of:
            conditions += [f"0 <= {place}", f"{place} < {of}"] if " " in place else [f"{place} < {of}"]
    value = f"data[{', '.join(places)}]"
    inside = " and ".join(conditions)
    copied = f"copied[{', '.join(f'v{axis}' for axis in axes)}]"
    zero = f"T.{instruction.data}({product.zero_point})"
    body = [
        f"T.reads({value})",
        f"T.writes({copied})",
        f'T.sblock_attr({{"schedule_rule": "{COPY_BLOCK}"}})',
        f"{copied} = T.if_then_else({inside}, {value}, {zero})",
    ]
    return loops(COPY_BLOCK, axes, extents, body)


def _schedule_copy(schedule: Any, block: Any) -> list[Any]:
    *outer, channels = schedule.get_loops(block)
    fused = schedule.fuse(*outer)
    extent = int(schedule.get(channels).extent)
    channels, lanes = schedule.split(channels, [None, math.gcd(extent, 64)])
    schedule.parallel(fused)
    schedule.vectorize(lanes)
    keep(schedule, fused, channels, lanes)
    return [schedule]


def _schedule_product(schedule: Any, block: Any, instruction: Instruction) -> list[Any]:
    """Some rows by some vectors are summed in registers, then what is fused after the product is computed of them."""
    last = last_after(schedule, block)
    loops = schedule.get_loops(block)
    spatial = sum(int(one.iter_type) == 0 for one in schedule.get(block).iter_vars)
    *leading, row, vector, lane = loops[:spatial]
    *taps, fours, four = loops[spatial:]
    row, rows = schedule.split(row, schedule.sample_perfect_tile(row, n=2, max_innermost_factor=MOST_ROWS))
    vector, vectors = schedule.split(
        vector, schedule.sample_perfect_tile(vector, n=2, max_innermost_factor=MOST_VECTORS)
    )
    fours, unrolled = schedule.split(fours, schedule.sample_perfect_tile(fours, n=2, max_innermost_factor=MOST_FOURS))
    schedule.reorder(vector, *leading, row, *taps, fours, unrolled, rows, vectors, lane, four)
    outermost = schedule.fuse(vector, *leading, row)
    schedule.parallel(outermost)
    schedule.reverse_compute_at(last, outermost, preserve_unit_loops=True)
    *stored, lanes_stored = schedule.get_loops(last)[1:]
    many, lanes_stored = schedule.split(lanes_stored, [None, instruction.lanes])
    zeroed = schedule.decompose_reduction(block, [*taps, fours][0])
    *zeros, zero_lanes = schedule.get_loops(zeroed)[1:]
    for loop in (unrolled, rows, vectors, *zeros, *stored, many):
        schedule.unroll(loop)
    for loop in (zero_lanes, lanes_stored):
        schedule.vectorize(loop)
    schedule.tensorize(lane, instruction.intrinsic)
    schedule.set_scope(zeroed, 0, "local")  # Only now: the intrinsic is described with sums in memory.
    keep(schedule, outermost, vectors, zero_lanes, lanes_stored)
    return [schedule]


tvm_ffi.register_global_func(f"s_tir.meta_schedule.cpu.{COPY_BLOCK}", _schedule_copy, override=True)
for _instruction in INSTRUCTIONS:
    # TVM looks the rule of an annotated block up by this name.
    tvm_ffi.register_global_func(
        f"s_tir.meta_schedule.cpu.{PRODUCT_BLOCK}_{_instruction.intrinsic}",
        partial(_schedule_product, instruction=_instruction),
        override=True,
    )
