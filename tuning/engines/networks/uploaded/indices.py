"""Keeps indices within their data. TVM's kernels don't check them: they would read and write whatever memory is there.

Constants that are outside are refused. Other indices are moved inside, which ONNX allows: it doesn't say what those
outside mean. Negative ones count from the end.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import IRModule, relax
from tvm.ir import GenericConst
from tvm.tirx import IntImm

from tuning.engines.networks.tensorir import with_calls_replaced
from tuning.engines.wire.errors import Refused

BY_AXIS = ("relax.take", "relax.gather_elements", "relax.scatter_elements")
BY_COORDINATES = ("relax.gather_nd", "relax.scatter_nd")
BY_TENSORS = ("relax.index_tensor", "relax.index_put")
"""Operators with a tuple of indices, one for each axis."""
UNCHECKED = ("relax.dynamic_strided_slice",)
"""TVM's kernel follows the numbers that it gets."""
Extents = NDArray[np.int64]


def bounded(mod: IRModule) -> IRModule:
    """The network, whose indices are all inside. Raises `Refused` for constants that aren't."""
    refusals: list[Refused] = []

    def inside(call: relax.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
        try:
            return _bounded(call, builder)
        except Refused as refused:  # TVM would make another error of it.
            refusals.append(refused)
            return None

    for name in [str(var.name_hint) for var, function in mod.functions.items() if isinstance(function, relax.Function)]:
        mod = with_calls_replaced(mod, inside, name)
    if refusals:
        raise refusals[0]
    return mod


def _bounded(call: relax.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
    name = str(getattr(call.op, "name", ""))
    if name in BY_TENSORS:
        return _with(call, _all_inside(call, builder, name))
    if name in UNCHECKED or (name == "relax.strided_slice" and call.attrs.assume_inbound):
        raise Refused(f"The model has a slice ({name.removeprefix('relax.')}) whose bounds can't be checked.")
    if name not in BY_AXIS and name not in BY_COORDINATES:
        return None
    inside = _inside(call.args[1], _extents(name, call), builder, name)
    return None if inside is call.args[1] else _with(call, inside)


def _extents(name: str, call: relax.Call) -> Extents:
    """The extents of the axes that the indices are of: for coordinates one for each, otherwise a number."""
    shape = _shape(call.args[0])
    if name in BY_AXIS:
        axis = call.attrs.axis
        return np.array(prod(shape) if axis is None else shape[int(axis)])
    first = int(call.attrs.batch_dims) if name == "relax.gather_nd" else 0
    return np.array(shape[first : first + _shape(call.args[1])[-1]])


def _shape(tensor: Any) -> tuple[int, ...]:
    extents = getattr(tensor.ty.shape, "values", None)
    if extents is None or not all(isinstance(extent, IntImm) for extent in extents):
        raise Refused("The model has indices of a tensor whose shape isn't fixed, which can't be checked.")
    return tuple(map(int, extents))


def _with(call: relax.Call, indices: Any) -> relax.Call:
    return relax.Call(call.op, [call.args[0], indices, *call.args[2:]], call.attrs, call.ty_args, call.span)


def _all_inside(call: relax.Call, builder: relax.BlockBuilder, name: str) -> relax.Expr:
    indices = builder.lookup_binding(call.args[1]) if isinstance(call.args[1], relax.Var) else call.args[1]
    if not isinstance(indices, relax.Tuple):
        raise Refused(f"The model's {name.removeprefix('relax.')} has indices that can't be checked.")
    extents = zip(indices.fields, _shape(call.args[0]), strict=False)
    return relax.Tuple([_inside(each, np.array(extent), builder, name) for each, extent in extents])


def _inside(indices: Any, extents: Extents, builder: relax.BlockBuilder, name: str) -> Any:
    """The indices themselves if they are constants that are inside and count from the beginning."""
    value = builder.lookup_binding(indices) if isinstance(indices, relax.Var) else indices
    if isinstance(value, (GenericConst, IntImm)):
        return _constant(indices, value, extents, name)
    dtype = str(indices.ty.dtype)
    limits = np.iinfo(dtype)
    last = relax.const(np.minimum(extents - 1, limits.max), dtype)
    if limits.min == 0:
        return relax.op.minimum(indices, last)
    first = relax.const(np.maximum(-extents, limits.min), dtype)
    inside = relax.op.minimum(relax.op.maximum(indices, first), last)
    from_end = relax.op.add(inside, relax.const(extents.astype(dtype), dtype))
    return relax.op.where(relax.op.less(inside, relax.const(0, dtype)), from_end, inside)


def _constant(indices: Any, value: Any, extents: Extents, name: str) -> Any:
    numbers = np.asarray(value.value.numpy() if isinstance(value, GenericConst) else int(value))
    outside = (numbers < -extents) | (numbers >= extents)
    if outside.any():
        where = np.broadcast_to(extents, outside.shape)[outside][0]
        raise Refused(
            f"The model's {name.removeprefix('relax.')} has the index {numbers[outside][0]}, where its data has {where} entries."
        )
    if not (numbers < 0).any() or isinstance(value, IntImm):
        return indices
    return relax.const(np.where(numbers < 0, numbers + extents, numbers), str(indices.ty.dtype))
