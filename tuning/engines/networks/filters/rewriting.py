"""A network whose convolutions have whole vectors of filters, as tiles of a CPU's registers take.

YOLO's outputs have 255 channels, for example, and ShuffleNet's layers 58 and 116. Where no vector divides them, TVM computes one filter at a time.
"""

from __future__ import annotations

import numpy as np
from tvm import IRModule, relax
from tvm.ir import GenericConst

from tuning.engines.networks.tensorir import fixed_shape, with_calls_replaced
from tuning.engines.targets.registers import MOST_VECTORS, Registers

from .functions import Widened, Window, function

MOST = 2
"""Filters, at most, compared with what they were."""
WORTH = 1.05
"""How many times as fast they must be, at least."""
OPERATORS = {f"relax.nn.conv{len(axes)}d": axes for axes in ("W", "HW", "DHW")}
"""With the axes of their images."""


def in_whole_vectors(mod: IRModule, registers: Registers) -> IRModule:
    """The network with functions in place of such convolutions in float32; the same one if it has none."""

    def replacement(call: relax.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
        if (conv := widened(call, registers)) is None:
            return None
        data, kernel = call.args
        layout = str(call.attrs.kernel_layout)
        given = kernel.value.numpy().transpose([layout.index(axis) for axis in (*conv.windows, "I", "O")])
        added = [*[(0, 0)] * (given.ndim - 1), (0, conv.whole - conv.filters)]
        name = str(call.op.name).rpartition(".")[2]
        made = builder.add_func(function(conv), f"{name}_in_vectors")
        return relax.call_tir(made, [data, relax.const(np.pad(given, added), "float32")], call.ty)

    return with_calls_replaced(mod, replacement)


def widened(call: relax.Call, registers: Registers) -> Widened | None:
    """The convolution that the call is, if its weights should have more filters."""
    axes = OPERATORS.get(str(getattr(call.op, "name", "")))
    if axes is None:
        return None
    (data, kernel), attrs = call.args, call.attrs
    given, made = fixed_shape(data, "float32"), fixed_shape(call, "float32")
    is_last = str(attrs.data_layout) == str(attrs.out_layout) == f"N{axes}C"
    if not is_last or int(attrs.groups) > 1 or not isinstance(kernel, GenericConst) or given is None or made is None:
        return None
    filters = made[-1]
    whole = _whole(registers, made[-2], filters)
    if whole == filters:
        return None
    kernels = dict(zip(str(attrs.kernel_layout), map(int, kernel.value.shape), strict=True))
    padding = list(map(int, attrs.padding))
    windows = {
        axis: Window(
            given[nth + 1],
            made[nth + 1],
            kernels[axis],
            int(attrs.strides[nth]),
            int(attrs.dilation[nth]),
            padding[nth],
            padding[nth + len(axes)],
        )
        for nth, axis in enumerate(axes)
    }
    return Widened(given[0], given[-1], filters, whole, windows)


def _whole(registers: Registers, width: int, filters: int) -> int:
    """With how many filters an image of such a width takes the least time: with as many as there are, unless more are much faster."""
    unit = registers.widths[-1]
    fewest = -(-filters // unit)
    offered = range(fewest, min(fewest + MOST_VECTORS, MOST * filters // unit) + 1)
    best = min((vectors * unit for vectors in offered), key=lambda more: registers.time(width, more), default=filters)
    is_worth = WORTH * registers.time(width, best) <= registers.time(width, filters)
    return best if is_worth else filters
