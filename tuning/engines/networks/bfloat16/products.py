"""Products of float32 data with constant weights in bfloat16: matrix products and convolutions.

The data are rounded to bfloat16 within the function, and each output is summed up in float32. Data and weights are in pairs of
channels, since that is what CPUs multiply at once. Their intrinsic needs the pairs of some filters next to each other, so the weights are
packed as constants, and the schedule has a rule of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import tvm_ffi

from tuning.engines.networks.tensorir import extents, keep, last_after, loops, parsed
from tuning.engines.wire.targets import BFLOAT16, PairsOfBfloat16

MOST_ROWS, MOST_VECTORS, MOST_SUMS = 16, 4, 16
"""At most so many rows, and vectors of filters, are summed in registers. If there are few rows, there are more vectors."""
MOST_PAIRS = 8
"""Pairs of channels in straight-line code."""
SPATIAL = 0
"""TVM's number of the kind of axis that isn't summed over."""
INPUT_BLOCK, PRODUCT_BLOCK = "bfloat16_input", "bfloat16_product"
"""Blocks, and the rules that schedule them. The latter's ends in the instruction's lanes."""


class Window(NamedTuple):
    """What a convolution does along an axis of its images. By default nothing, as a matrix product does along its rows."""

    extent: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    """Padding."""

    def padded(self, extent: int) -> int:
        return self.before + extent + self.after

    def outputs(self, extent: int) -> int:
        return (self.padded(extent) - self.dilation * (self.extent - 1) - 1) // self.stride + 1


class Product(NamedTuple):
    """A product whose data have channels and any other axes, all of which the output has, too, with filters as its channels."""

    layout: str
    """A letter per axis of the data, C for the channels."""
    shape: tuple[int, ...]
    filters: int
    windows: dict[str, Window]
    """By axis. Those that aren't here have none."""
    pairs: PairsOfBfloat16

    @property
    def rows(self) -> dict[str, int]:
        """The data's extents by axis, without the channels."""
        return {axis: extent for axis, extent in zip(self.layout, self.shape, strict=True) if axis != "C"}

    @property
    def channels(self) -> int:
        return self.shape[self.layout.index("C")]

    @property
    def even_channels(self) -> int:
        """The last pair may end in a channel of zeros."""
        return self.channels + self.channels % 2

    @property
    def whole_filters(self) -> int:
        """The last vector may end in filters of zeros."""
        return -(-self.filters // self.pairs.lanes) * self.pairs.lanes

    def window(self, axis: str) -> Window:
        return self.windows.get(axis, Window())

    @property
    def outputs(self) -> dict[str, int]:
        """As `rows`, of the output."""
        return {axis: self.window(axis).outputs(extent) for axis, extent in self.rows.items()}


def packed(product: Product, kernel: Any) -> Any:
    """The weights for the function, made of a kernel (…, channels, filters): vectors of filters, …, pairs of channels, lanes, 2."""
    import ml_dtypes
    import numpy as np

    *window, channels, filters = kernel.shape
    lanes = product.pairs.lanes
    whole = np.zeros((*window, product.even_channels, product.whole_filters), "float32")
    whole[..., :channels, :filters] = kernel
    pairs = whole.reshape(*window, product.even_channels // 2, 2, product.whole_filters // lanes, lanes)
    first, count = len(window), pairs.ndim
    order = (count - 2, *range(first), first, count - 1, first + 1)
    return np.ascontiguousarray(pairs.transpose(order)).astype(ml_dtypes.bfloat16)


def function(product: Product) -> Any:
    """The product of data in float32 with `packed` weights. Elementwise functions may be fused after it."""
    return parsed(_source(product))


def _source(product: Product) -> Iterator[str]:
    lanes, letters = product.pairs.lanes, [axis.lower() for axis in product.rows]
    windows = {axis.lower(): window for axis, window in product.windows.items()}
    padded = [product.window(axis).padded(extent) for axis, extent in product.rows.items()]
    kernel = [window.extent for window in windows.values()]
    weights = (product.whole_filters // lanes, *kernel, product.even_channels // 2, lanes, 2)
    out = [product.filters if axis == "C" else product.outputs[axis] for axis in product.layout]
    yield "# from tvm.script import tirx as T"
    yield "@T.prim_func(private=True, s_tir=True)"
    yield (
        f'def product(x: T.Buffer(({extents(*product.shape)}), "float32"), '
        f'weights: T.Buffer(({extents(*weights)}), "bfloat16"), y: T.Buffer(({extents(*out)}), "float32")):'
    )
    # As a function whose outputs elementwise ones may be fused with: TVM can't tell from the blocks.
    yield '    T.func_attr({"tirx.noalias": True, "op_pattern": 4})'
    # In TVM's bfloat16 they would become float32 again.
    yield f'    data = T.sblock_alloc_buffer(({extents(*padded, product.even_channels)}), "uint16")'
    yield f"    sums = T.sblock_alloc_buffer(({extents(*product.outputs.values(), product.whole_filters)}))"
    yield from loops(INPUT_BLOCK, [*letters, "c"], [*padded, product.even_channels], list(_rounded(product, letters)))
    window = [f"d{axis}" for axis in windows]
    rows = ", ".join(f"v{axis}" for axis in letters)
    places = ", ".join(_place(axis, windows.get(axis)) for axis in letters)
    vector = ", ".join([f"vf // {lanes}", *(f"v{one}" for one in window), "vc // 2", f"vf % {lanes}", "vc % 2"])
    term = f'T.Cast("float32", T.reinterpret("bfloat16", data[{places}, vc])) * T.Cast("float32", weights[{vector}])'
    body = [
        f"T.reads(data[{places}, vc], weights[{vector}])",
        f"T.writes(sums[{rows}, vf])",
        f'T.sblock_attr({{"schedule_rule": "{_rule(product.pairs)}"}})',
        "with T.init():",
        f"    sums[{rows}, vf] = T.float32(0)",
        f"sums[{rows}, vf] = sums[{rows}, vf] + {term}",
    ]
    spatial, summed = [*letters, "f"], [*window, "c"]
    sizes = [*product.outputs.values(), product.whole_filters, *kernel, product.even_channels]
    yield from loops(PRODUCT_BLOCK, spatial + summed, sizes, body, "S" * len(spatial) + "R" * len(summed))
    axes = [axis.lower() for axis in product.layout]
    y = ", ".join(f"v{axis}" for axis in axes)
    body = [f"T.reads(sums[{rows}, vc])", f"T.writes(y[{y}])", f"y[{y}] = sums[{rows}, vc]"]
    yield from loops("output", axes, out, body)


def _rounded(product: Product, letters: list[str]) -> Iterator[str]:
    """Of the input's block: rounds an element, or zero outside of the data, to the nearest bfloat16, of which it keeps the bits."""
    before = {axis.lower(): window.before for axis, window in product.windows.items()}
    at = {axis: f"v{axis} - {before[axis]}" if before.get(axis) else f"v{axis}" for axis in (*letters, "c")}
    sizes = {axis.lower(): extent for axis, extent in product.rows.items()} | {"c": product.channels}
    padded = {axis.lower() for axis, window in product.windows.items() if window.before or window.after}
    inside = [f"0 <= {at[axis]} and {at[axis]} < {sizes[axis]}" for axis in letters if axis in padded]
    inside += [f"vc < {product.channels}"] if product.even_channels > product.channels else []
    x = f"x[{', '.join(at[axis.lower()] for axis in product.layout)}]"
    value = f"T.if_then_else({' and '.join(inside)}, {x}, T.float32(0))" if inside else x
    bits = f'T.reinterpret("uint32", {value})'
    data = f"data[{', '.join(f'v{axis}' for axis in letters)}, vc]"
    to_even = f"{bits} + T.uint32(0x7FFF) + (({bits} >> T.uint32(16)) & T.uint32(1))"
    yield f"T.reads({x})"
    yield f"T.writes({data})"
    yield f'T.sblock_attr({{"schedule_rule": "{INPUT_BLOCK}"}})'
    yield f'{data} = T.Cast("uint16", ({to_even}) >> T.uint32(16))'


def _place(axis: str, window: Window | None) -> str:
    """Where an output is along an axis of the padded data."""
    return f"v{axis} * {window.stride} + vd{axis} * {window.dilation}" if window else f"v{axis}"


def _rule(pairs: PairsOfBfloat16) -> str:
    return f"{PRODUCT_BLOCK}_{pairs.lanes}"


def _schedule_input(schedule: Any, block: Any) -> list[Any]:
    *rows, channels = schedule.get_loops(block)
    channels, lanes = schedule.split(channels, [None, math.gcd(16, int(schedule.get(channels).extent))])
    outermost = schedule.fuse(*rows)
    schedule.parallel(outermost)
    schedule.vectorize(lanes)
    keep(schedule, outermost, channels, lanes)
    return [schedule]


def _schedule_product(pairs: PairsOfBfloat16, schedule: Any, block: Any) -> list[Any]:
    """A few rows by a few vectors of filters are summed in registers; the search chooses how many of each."""
    kinds = [int(axis.iter_type) for axis in schedule.get(block).iter_vars]
    loops, spatial = schedule.get_loops(block), kinds.count(SPATIAL)
    *outer, row, filters = loops[:spatial]
    *window, channels = loops[spatial:]
    is_narrow = int(schedule.get(row).extent) < MOST_VECTORS
    vector, lanes = schedule.split(filters, [None, pairs.lanes])
    most = MOST_SUMS if is_narrow else MOST_VECTORS
    row, rows = schedule.split(row, schedule.sample_perfect_tile(row, n=2, max_innermost_factor=MOST_ROWS))
    vector, vectors = schedule.split(vector, schedule.sample_perfect_tile(vector, n=2, max_innermost_factor=most))
    channels, pair = schedule.split(channels, [None, 2])
    channels, inner = schedule.split(
        channels, schedule.sample_perfect_tile(channels, n=2, max_innermost_factor=MOST_PAIRS)
    )
    schedule.reorder(vector, *outer, row, *window, channels, inner, rows, vectors, lanes, pair)
    outermost = schedule.fuse(vector, *outer, row)
    _schedule_following(schedule, block, outermost, pairs)
    schedule.parallel(outermost)
    for loop in (inner, rows, vectors):
        schedule.unroll(loop)
    zeros = schedule.decompose_reduction(block, window[0] if window else channels)
    *unrolled, lane = schedule.get_loops(zeros)[1:]
    for loop in unrolled:
        schedule.unroll(loop)
    schedule.vectorize(lane)
    schedule.tensorize(lanes, pairs.intrinsic)
    keep(schedule, outermost, vectors, lane)
    return [schedule]


def _schedule_following(schedule: Any, block: Any, loop: Any, pairs: PairsOfBfloat16) -> None:
    """Have sums in registers, and what follows them computed from there; if some filters are left out, that needs them in memory."""
    (output,) = schedule.get_consumers(block)
    in_vectors = _ends_in_filters(schedule.get(output))
    if _size(schedule.get(block)) > _size(schedule.get(output)):
        result, in_vectors = schedule.cache_write(block, 0, "local"), True
    else:
        result = last_after(schedule, block)
        schedule.set_scope(block, 0, "local")
    schedule.reverse_compute_at(result, loop, preserve_unit_loops=True)
    if in_vectors:
        _, lanes = schedule.split(schedule.get_loops(result)[-1], [None, pairs.lanes])
        schedule.vectorize(lanes)
    keep(schedule, *schedule.get_loops(result)[1:])


def _ends_in_filters(output: Any) -> bool:
    """Whether the last axis of the output's block is that of the sums, the filters."""
    return bool(output.reads[0].region[-1].min.same_as(output.iter_vars[-1].var))


def _size(block: Any) -> int:
    """How many elements the block computes."""
    return math.prod(int(axis.dom.extent) for axis in block.iter_vars if int(axis.iter_type) == SPATIAL)


tvm_ffi.register_global_func(f"s_tir.meta_schedule.cpu.{INPUT_BLOCK}", _schedule_input, override=True)
for _pairs in set(BFLOAT16.values()):
    # TVM looks the rule of an annotated block up by this name.
    tvm_ffi.register_global_func(
        f"s_tir.meta_schedule.cpu.{_rule(_pairs)}", partial(_schedule_product, _pairs), override=True
    )
