"""Computes what depends on constants alone: the factors of batch norms, for example, and weights in another layout.

TVM's pass compiles a function for each operator, which takes tens of seconds for a network of 50 convolutions with batch norms. NumPy computes the
operators below at once, and to the same bits: they move numbers, or IEEE 754 says how they round. TVM's pass does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import IRModule, relax
from tvm.ir import GenericConst
from tvm.ir.transform import Sequential
from tvm.tirx import FloatImm

from tuning.engines.networks.tensorir import fixed_shape, with_calls_replaced

TYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool")
"""Of tensors that both have."""
FLOATS = ("float32", "float64")
"""The types in which both round after each operation."""
ARITHMETIC: Mapping[str, Callable[..., NDArray[Any]]] = {
    "relax.add": np.add,
    "relax.divide": np.divide,
    "relax.multiply": np.multiply,
    "relax.sqrt": np.sqrt,
    "relax.subtract": np.subtract,
}
PERMUTE = "relax.permute_dims"
RESHAPES = {"relax.expand_dims", "relax.flatten", "relax.reshape", "relax.squeeze"}


def folded(mod: IRModule) -> IRModule:
    """The network with constants in place of what can be computed from them, and without what isn't used."""
    steps = [
        relax.transform.CanonicalizeBindings(),
        relax.transform.FoldConstant(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(["main"]),
    ]
    return Sequential(steps)(with_calls_replaced(mod, computed))


def computed(call: relax.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
    """What the call makes of constants; None if that is left to TVM, or it isn't given constants alone."""
    compute = _operator(call)
    if compute is None:
        return None
    given = [_constant(arg, builder) for arg in call.args if not isinstance(arg, relax.ShapeExpr)]
    if any(one is None for one in given):
        return None
    with np.errstate(all="ignore"):  # A file's numbers may be any.
        return relax.const(compute(*given), str(call.ty.dtype))


def _operator(call: relax.Call) -> Callable[..., NDArray[Any]] | None:
    """The same on arrays, if it is one of those above."""
    name = str(getattr(call.op, "name", ""))
    if name in ARITHMETIC:
        return ARITHMETIC[name] if fixed_shape(call, *FLOATS) is not None else None
    if name not in (PERMUTE, *RESHAPES) or (shape := fixed_shape(call, *TYPES)) is None:
        return None
    if name in RESHAPES:
        return lambda data: data.reshape(shape)
    axes = call.attrs.axes
    return lambda data: np.ascontiguousarray(data.transpose(None if axes is None else list(map(int, axes))))


def _constant(arg: relax.Expr, builder: relax.BlockBuilder) -> NDArray[Any] | None:
    value = builder.lookup_binding(arg) if isinstance(arg, relax.Var) else arg
    if isinstance(value, GenericConst):
        return np.asarray(value.value.numpy())
    return np.asarray(value.value, str(value.ty.dtype)) if isinstance(value, FloatImm) else None
