"""Convolutions whose weights have more filters than their output has channels, as TensorIR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tvm import tirx

from tuning.engines.networks.tensorir import Edges, extents, loops, padding, parsed, sum_of_products


class Window(NamedTuple):
    """What a convolution does along an axis of its images."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    before: int
    """How many zeros precede the data."""
    after: int


class Widened(NamedTuple):
    """A convolution of one group with channels last, in float32."""

    batch: int
    channels: int
    filters: int
    whole: int
    """How many filters the weights have, whole vectors."""
    windows: dict[str, Window]
    """By axis of the images."""


def function(conv: Widened) -> tirx.PrimFunc:
    """The convolution of data (batch, …, channels) with weights (…, channels, whole), without what is added. Elementwise functions may be fused after it."""
    return parsed(_source(conv))


def _source(conv: Widened) -> Iterator[str]:
    windows = conv.windows
    images = [one.outputs for one in windows.values()]
    weights = [*(one.kernel for one in windows.values()), conv.channels, conv.whole]
    yield "# from tvm.script import tirx as T"
    yield "@T.prim_func(private=True, s_tir=True)"
    yield (
        f"def conv(x: {_buffer(conv.batch, *(one.inputs for one in windows.values()), conv.channels)}, "
        f"weights: {_buffer(*weights)}, y: {_buffer(conv.batch, *images, conv.filters)}):"
    )
    # As a function whose outputs elementwise ones may be fused with: TVM can't tell from the blocks.
    yield '    T.func_attr({"tirx.noalias": True, "op_pattern": 4})'
    data = "x"
    if any(one.before or one.after for one in windows.values()):
        data = "padded"
        edges = {axis: Edges(one.before, one.inputs, one.after) for axis, one in windows.items()}
        yield from padding({"n": conv.batch, **edges, "c": conv.channels}, "float32")
    spatial = ["n", *windows, "f"]
    at = ", ".join(f"v{axis}" for axis in spatial)
    yield f'    sums = T.sblock_alloc_buffer(({extents(conv.batch, *images, conv.whole)}), "float32")'
    yield from _sums(conv, data, spatial, at)
    body = [f"T.reads(sums[{at}])", f"T.writes(y[{at}])", f"y[{at}] = sums[{at}]"]
    yield from loops("conv", spatial, [conv.batch, *images, conv.filters], body)


def _sums(conv: Widened, data: str, spatial: list[str], at: str) -> Iterator[str]:
    windows = conv.windows
    taps = [f"k{axis}" for axis in windows]
    places = ", ".join(f"v{axis} * {one.stride} + vk{axis} * {one.dilation}" for axis, one in windows.items())
    factor, weight = f"{data}[vn, {places}, vc]", f"weights[{', '.join(f'v{tap}' for tap in taps)}, vc, vf]"
    body = sum_of_products(f"sums[{at}]", (factor, weight), "float32")
    sizes = [conv.batch, *(one.outputs for one in windows.values()), conv.whole]
    reduced = [*(one.kernel for one in windows.values()), conv.channels]
    yield from loops("sum", [*spatial, *taps, "c"], [*sizes, *reduced], body, "S" * len(sizes) + "R" * len(reduced))


def _buffer(*shape: int) -> str:
    return f'T.Buffer(({extents(*shape)}), "float32")'
