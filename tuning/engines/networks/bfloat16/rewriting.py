"""A network with its products in bfloat16: those of float32 data with constant weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import IRModule, relax
from tvm.ir import GenericConst

from tuning.engines.networks.tensorir import fixed_shape
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.targets import PairsOfBfloat16

from . import products
from .products import Product, Window

CONVOLUTIONS = {f"relax.nn.conv{rank}d": axes for rank, axes in ((1, "W"), (2, "HW"), (3, "DHW"))}
"""Operators, with the axes of their images."""


def in_bfloat16(mod: IRModule, pairs: PairsOfBfloat16) -> IRModule:
    """The network with functions in place of these products. All other operators stay as they are, or are lowered as TVM does.

    Raises `Refused` if there is no such product.
    """
    rules = {"relax.matmul": _matmul, **dict.fromkeys(CONVOLUTIONS, _convolution)}
    reduced = _Reduced(pairs)
    lowered = relax.transform.LegalizeOps(
        {
            name: lambda builder, call, of=of: reduced.lowered(builder, call, of(call, pairs))
            for name, of in rules.items()
        }
    )(mod)
    if not reduced.products:
        raise Refused(
            "It has no products of float32 data with constant weights, so nothing would be computed in bfloat16."
        )
    return lowered


class _Reduced:
    """Counts the products that were replaced."""

    def __init__(self, pairs: PairsOfBfloat16) -> None:
        self._pairs = pairs
        self.products = 0

    def lowered(self, builder: Any, call: Any, found: tuple[Product, Any] | None) -> Any:
        if found is None:
            return call.op.get_attr("FLegalize")(builder, call)
        product, kernel = found
        self.products += 1
        name = str(call.op.name).rpartition(".")[2]
        function = builder.add_func(products.function(product), f"bfloat16_{name}")
        weights = relax.const(products.packed(product, kernel), "bfloat16")
        return relax.call_tir(function, [call.args[0], weights], call.ty)


def _matmul(call: Any, pairs: PairsOfBfloat16) -> tuple[Product, Any] | None:
    """The product that the call is, and its kernel (channels, filters); likewise below. None if it isn't one."""
    data, weights = call.args
    if (
        not _is_constant(weights, 2)
        or (shape := fixed_shape(data, "float32")) is None
        or len(shape) < 2
        or fixed_shape(call, "float32") is None
    ):
        return None
    # Letters that are no axes of images.
    layout = "ABEFGIJKLM"[: len(shape) - 1] + "C"
    kernel = weights.value.numpy()
    return Product(layout, shape, kernel.shape[1], {}, pairs), kernel


def _convolution(call: Any, pairs: PairsOfBfloat16) -> tuple[Product, Any] | None:
    data, weights = call.args
    attrs, axes = call.attrs, CONVOLUTIONS[str(call.op.name)]
    layout, order = str(attrs.data_layout), str(attrs.kernel_layout)
    plain = len(layout) == len(order) == len(axes) + 2 and str(attrs.out_layout) == layout and int(attrs.groups) == 1
    shape = fixed_shape(data, "float32")
    if not plain or not _is_constant(weights, len(order)) or shape is None or fixed_shape(call, "float32") is None:
        return None
    kernel = weights.value.numpy().transpose([order.index(axis) for axis in f"{axes}IO"])
    padding = [int(each) for each in attrs.padding]
    each = zip(axes, kernel.shape, attrs.strides, attrs.dilation, padding, padding[len(axes) :], strict=False)
    windows = {axis: Window(*map(int, window)) for axis, *window in each}
    return Product(layout, shape, int(kernel.shape[-1]), windows, pairs), kernel


def _is_constant(weights: Any, rank: int) -> bool:
    """Whether these are constants of float32 with so many axes."""
    if not isinstance(weights, GenericConst):
        return False
    value: np.ndarray[Any, Any] = weights.value.numpy()
    return value.ndim == rank and value.dtype == "float32"
