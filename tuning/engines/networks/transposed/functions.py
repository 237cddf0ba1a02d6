"""Transposed convolutions by phase, as TensorIR.

With a stride of s, an output's position modulo s, its phase, says which weights it is a sum with: every s-th of the kernel. So each phase
is a convolution of the data as they are with a part of the kernel. TVM's own functions put zeros between the data and convolve that with
the whole kernel; at a stride of 2 in height and width, three of four products are with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tuning.engines.networks.tensorir import Edges, extents, loops, padding, parsed, sum_of_products


class Window(NamedTuple):
    """What a transposed convolution does along an axis of its images."""

    inputs: int
    outputs: int
    """A multiple of the stride."""
    kernel: int
    stride: int
    padding: int
    """How many outputs are left out at the beginning."""

    @property
    def steps(self) -> int:
        """How many outputs a phase has."""
        return self.outputs // self.stride

    @property
    def taps(self) -> int:
        """How many weights a phase has, at most."""
        return -(-self.kernel // self.stride)

    @property
    def before(self) -> int:
        """How many zeros must precede the data; likewise below."""
        return max(0, self.taps - 1 - self.padding // self.stride)

    @property
    def after(self) -> int:
        last = self.steps - 1 + (self.padding + self.stride - 1) // self.stride
        return max(0, last + 1 - self.inputs)


class Transposed(NamedTuple):
    """A transposed convolution with one group and without dilation."""

    layout: str
    """Of data and outputs: N, C, and a letter for each axis of the images."""
    batch: int
    channels: int
    filters: int
    windows: dict[str, Window]
    """By axis."""
    dtype: str

    def shape(self, channels: int, images: dict[str, int]) -> list[int]:
        """Of a tensor in the layout."""
        return [{"N": self.batch, "C": channels, **images}[axis] for axis in self.layout]

    def at(self, n: str, c: str, images: dict[str, str]) -> str:
        """The index of an element of such a tensor."""
        return ", ".join({"N": n, "C": c, **images}[axis] for axis in self.layout)


def weights(conv: Transposed, kernel: Any) -> Any:
    """A kernel (channels, filters, …) as (phases …, taps …, channels, filters). Where a phase has fewer taps than others it has zeros."""
    parts = np.moveaxis(kernel, (0, 1), (-2, -1))
    for nth, window in enumerate(conv.windows.values()):
        axis = 2 * nth
        wide = [(0, 0)] * parts.ndim
        wide[axis] = (0, window.taps * window.stride - window.kernel)
        split = (*parts.shape[:axis], window.taps, window.stride, *parts.shape[axis + 1 :])
        # Phases begin with the first output, behind the padding.
        parts = np.roll(np.pad(parts, wide).reshape(split), -window.padding, axis + 1)
    taps = range(0, 2 * len(conv.windows), 2)
    return np.ascontiguousarray(parts.transpose([*(axis + 1 for axis in taps), *taps, -2, -1]))


def function(conv: Transposed) -> Any:
    """The convolution of data with its `weights`. Elementwise functions may be fused after it."""
    return parsed(_source(conv))


def _source(conv: Transposed) -> Iterator[str]:
    windows = conv.windows
    kernel = [*(one.stride for one in windows.values()), *(one.taps for one in windows.values())]
    x = conv.shape(conv.channels, {axis: one.inputs for axis, one in windows.items()})
    y = conv.shape(conv.filters, {axis: one.outputs for axis, one in windows.items()})
    yield "# from tvm.script import tirx as T"
    yield "@T.prim_func(private=True, s_tir=True)"
    yield (
        f'def conv(x: T.Buffer(({extents(*x)}), "{conv.dtype}"), '
        f'weights: T.Buffer(({extents(*kernel, conv.channels, conv.filters)}), "{conv.dtype}"), '
        f'y: T.Buffer(({extents(*y)}), "{conv.dtype}")):'
    )
    # As a function whose outputs elementwise ones may be fused with: TVM can't tell from the blocks.
    yield '    T.func_attr({"tirx.noalias": True, "op_pattern": 4})'
    data = "x"
    if any(one.before or one.after for one in windows.values()):
        data = "padded"
        edges = {axis: Edges(one.before, one.inputs, one.after) for axis, one in windows.items()}
        sizes: dict[str, int | Edges] = {"N": conv.batch, "C": conv.channels, **edges}
        yield from padding({axis.lower(): sizes[axis] for axis in conv.layout}, conv.dtype)
    sums = _sums(conv)
    indices = ", ".join(f"v{axis}" for axis in sums)
    yield f'    sums = T.sblock_alloc_buffer(({extents(*sums.values())}), "{conv.dtype}")'
    yield from _product(conv, data, sums, indices)
    places = {axis: f"v{axis.lower()} * {one.stride} + vp{axis.lower()}" for axis, one in windows.items()}
    output = f"y[{conv.at('vn', 'vf', places)}]"
    body = [f"T.reads(sums[{indices}])", f"T.writes({output})", f"{output} = sums[{indices}]"]
    yield from loops("conv_transpose", list(sums), list(sums.values()), body)


def _sums(conv: Transposed) -> dict[str, int]:
    """The axes of the sums, outermost first, and their extents. Vectors lie along the last one, as in the output."""
    steps = {axis.lower(): one.steps for axis, one in conv.windows.items()}
    phases = {f"p{axis.lower()}": one.stride for axis, one in conv.windows.items()}
    width, steps_of_width = steps.popitem()
    inner = {"f": conv.filters, width: steps_of_width}
    if conv.layout.endswith("C"):
        inner = {width: steps_of_width, "f": conv.filters}
    return {"n": conv.batch, **steps, **phases, **inner}


def _product(conv: Transposed, data: str, sums: dict[str, int], indices: str) -> Iterator[str]:
    letters = [axis.lower() for axis in conv.windows]
    taps = {f"t{axis.lower()}": one.taps for axis, one in conv.windows.items()}
    factor = f"{data}[{conv.at('vn', 'vc', {axis: _place(axis.lower(), one) for axis, one in conv.windows.items()})}]"
    weight = f"weights[{', '.join([*(f'vp{axis}' for axis in letters), *(f'v{axis}' for axis in taps)])}, vc, vf]"
    body = sum_of_products(f"sums[{indices}]", (factor, weight), conv.dtype)
    sizes = [*sums.values(), *taps.values(), conv.channels]
    kinds = "S" * len(sums) + "R" * (len(taps) + 1)
    yield from loops("sum", [*sums, *taps, "c"], sizes, body, kinds)


def _place(axis: str, window: Window) -> str:
    """Where a factor is in the padded data."""
    shift = f" + (vp{axis} + {window.padding}) // {window.stride}" if window.padding else ""
    tap = f" - vt{axis}" if window.taps > 1 else ""
    return f"v{axis}{shift}{tap} + {window.before}" if window.before else f"v{axis}{shift}{tap}"
