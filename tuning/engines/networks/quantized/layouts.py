"""Has what follows a convolution in integers compute channels last, too, so that it is fused with the convolution.

Such a convolution has its channels last, in a network that has them first: it ends in a transposition, which here moves down, behind
operators that work on either layout, until it meets the one at the beginning of the next convolution, and both go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import IRModule, relax
from tvm.ir import GenericConst, Op

LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
"""The axes that bring channels from the first place to the last, and back."""
_POINTWISE = (
    "abs add astype clip dequantize divide erf exp maximum minimum multiply negative power quantize sigmoid sqrt subtract tanh "
    "nn.gelu nn.leakyrelu nn.relu nn.silu"
)
POINTWISE = {Op.get(f"relax.{name}") for name in _POINTWISE.split()}
PERMUTE, MEAN, CONV2D, MAX_POOL2D, AVG_POOL2D = (
    Op.get(f"relax.{name}") for name in ("permute_dims", "mean", "nn.conv2d", "nn.max_pool2d", "nn.avg_pool2d")
)
_POOLS = {MAX_POOL2D: relax.op.nn.max_pool2d, AVG_POOL2D: relax.op.nn.avg_pool2d}


def channels_last(mod: IRModule) -> IRModule:
    """Constants must be folded already."""
    moved = relax.transform.CanonicalizeBindings()(_Moving(mod).moved())
    return relax.transform.DeadCodeElimination(["main"])(moved)


@relax.expr_functor.mutator
class _Moving(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._mod = mod

    def moved(self) -> IRModule:
        main = self.visit_expr(self._mod["main"])
        self.builder_.update_func(self._mod.get_global_var("main"), main)
        return self.builder_.get()

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """TVM's name."""
        call = super().visit_call_(call)
        if not isinstance(call, relax.Call) or not call.args:
            return call
        if call.op == PERMUTE:
            return self._canceled(call)
        if call.op in POINTWISE:
            return self._pointwise(call)
        by_operator: dict[Any, Callable[[Any, Any], Any]] = {
            MEAN: self._mean,
            CONV2D: self._conv2d,
            MAX_POOL2D: self._pool,
            AVG_POOL2D: self._pool,
        }
        last = self._last(call.args[0])
        return by_operator[call.op](call, last) if call.op in by_operator and last is not None else call

    def _last(self, expr: relax.Expr) -> Any:
        """The same with its channels last, if it was transposed from that."""
        value: Any = self.builder_.lookup_binding(expr) if isinstance(expr, relax.Var) else None
        is_first = isinstance(value, relax.Call) and value.op == PERMUTE and _axes(value) == FIRST
        return value.args[0] if is_first else None

    def _first(self, expr: relax.Expr) -> relax.Expr:
        """The result, transposed back."""
        return self.builder_.normalize(relax.op.permute_dims(self.builder_.emit(expr), FIRST))

    def _canceled(self, call: relax.Call) -> relax.Expr:
        last = self._last(call.args[0]) if _axes(call) == LAST else None
        return call if last is None else last

    def _pointwise(self, call: relax.Call) -> relax.Expr:
        if not any(self._last(one) is not None for one in call.args):
            return call
        moved = [self._moved(one) for one in call.args]
        if any(one is None for one in moved):
            return call
        return self._first(relax.Call(call.op, moved, call.attrs))

    def _moved(self, argument: relax.Expr) -> Any:
        """An argument of a pointwise operator for channels last, or None if it can't be moved."""
        ty = argument.ty
        if not isinstance(ty, relax.TensorType) or all(int(extent) == 1 for extent in ty.shape):
            return argument
        if isinstance(argument, GenericConst):
            value = argument.value.numpy()
            return relax.const(value.reshape((1,) * (4 - value.ndim) + value.shape).transpose(LAST))
        last = self._last(argument)
        if last is not None or ty.ndim != len(LAST):
            return last
        return self.builder_.emit(relax.op.permute_dims(argument, LAST))

    def _mean(self, call: relax.Call, last: relax.Expr) -> relax.Expr:
        axes = sorted(int(axis) % len(LAST) for axis in call.attrs.axis or ())
        if axes != [2, 3]:
            return call
        mean = relax.op.mean(last, [1, 2], bool(call.attrs.keepdims))
        return self._first(mean) if call.attrs.keepdims else mean

    def _pool(self, call: relax.Call, last: relax.Expr) -> relax.Expr:
        attrs = call.attrs
        sides = (list(map(int, one)) for one in (attrs.pool_size, attrs.strides, attrs.padding, attrs.dilation))
        others = (bool(attrs.ceil_mode), bool(attrs.count_include_pad))
        return self._first(_POOLS[call.op](last, *sides, *others, "NHWC"))

    def _conv2d(self, call: relax.Call, last: relax.Expr) -> relax.Expr:
        """One that is computed in floats, such as of channels in groups."""
        attrs, weights = call.attrs, call.args[1]
        if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NCHW", "OIHW") or not isinstance(
            weights, GenericConst
        ):
            return call
        kernel = np.ascontiguousarray(weights.value.numpy().transpose(2, 3, 1, 0))
        sides = [list(map(int, one)) for one in (attrs.strides, attrs.padding, attrs.dilation)]
        conv = relax.op.nn.conv2d(
            last, relax.const(kernel), *sides, int(attrs.groups), "NHWC", "HWIO", "NHWC", attrs.out_dtype
        )
        return self._first(conv)


def _axes(call: relax.Call) -> list[int]:
    return [int(axis) for axis in call.attrs.axes or ()]
