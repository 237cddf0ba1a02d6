"""Rewrites networks: products of dequantized data and weights become products of the integers, which are dequantized after it."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from tvm import IRModule, relax
from tvm.ir import GenericConst, Op

from tuning.engines.targets.dot_products import Instruction

from .products import Product, Window, function, packed

PRODUCTS = {
    Op.get(f"relax.{name}"): name.rpartition(".")[2] for name in ("matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d")
}
"""Operators that may be quantized, by name."""
DEQUANTIZE, QUANTIZE, PERMUTE = (Op.get(f"relax.{name}") for name in ("dequantize", "quantize", "permute_dims"))
MOVES = [
    Op.get(f"relax.{name}") for name in ("permute_dims", "reshape", "expand_dims", "squeeze", "flatten", "nn.relu")
]
"""Operators that leave values as they are, or 0."""
_CHANNELS_LAST = {"NCHW": (0, 2, 3, 1), "NHWC": (0, 1, 2, 3)}
_FROM_CHANNELS_LAST = {"NCHW": (0, 3, 1, 2), "NHWC": (0, 1, 2, 3)}
_KERNELS = {"OIHW": (2, 3, 1, 0), "HWIO": (0, 1, 2, 3)}
"""By layout of a kernel, its axes that are height, width, inputs and outputs."""
HALF = 128
"""By how much int8 and uint8 of the same bits differ."""
MOST_TERMS = (1 << 31) // (255 * HALF)
"""So many products of 8-bit integers can be added in 32 bits."""


class Report(NamedTuple):
    """How many quantized operators of a network are computed in integers, by name, and how many in floats, by name and reason."""

    integers: dict[str, int]
    floats: dict[tuple[str, str], int]
    steps: tuple[float | None, ...] = ()
    """For each output, by how much two values differ at least; None where it isn't quantized."""

    def __str__(self) -> str:
        done, left = sum(self.integers.values()), sum(self.floats.values())
        told = f"{done} of {done + left} quantized operators are computed in integers"
        told += f" ({', '.join(f'{count} {name}' for name, count in self.integers.items())})." if done else "."
        kept = (f"{count} {name}: {reason}" for (name, reason), count in self.floats.items())
        return f"{told} In floats: {'; '.join(kept)}." if left else told


class _Kept(Exception):
    """The operator is computed in floats; the text says why."""


class _Data(NamedTuple):
    """Dequantized data: (`integers` - `zero_point`) × `scale`."""

    integers: relax.Expr
    scale: float
    zero_point: int


class _Weights(NamedTuple):
    """Dequantized weights: `integers`, of int8, × `scale`."""

    integers: Any
    """With the outputs last, before them the inputs."""
    scale: Any
    """One, or one an output."""


def in_integers(mod: IRModule, instruction: Instruction | None) -> tuple[IRModule, Report]:
    """The network with its quantized operators computed by the instruction where that is possible. Constants must not be folded yet.

    With None, nothing changes.
    """
    rewriting = _Rewriting(mod, instruction)
    rewritten = rewriting.rewritten()
    report = Report(dict(rewriting.integers), dict(rewriting.floats), rewriting.steps())
    return rewritten if rewriting.integers else mod, report


@relax.expr_functor.mutator
class _Rewriting(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: IRModule, instruction: Instruction | None) -> None:
        super().__init__(mod)
        self._mod = mod
        self._instruction = instruction
        self._values = dict(relax.analysis.get_var2val(mod["main"]).items())
        self._moved: dict[Any, Any] = {}
        self.integers: Counter[str] = Counter()
        self.floats: Counter[tuple[str, str]] = Counter()

    def rewritten(self) -> IRModule:
        main = self.visit_expr(self._mod["main"])
        self.builder_.update_func(self._mod.get_global_var("main"), main)
        return self.builder_.get()

    def steps(self) -> tuple[float | None, ...]:
        """As in `Report`."""
        output = self._value(self._mod["main"].body.body)
        return tuple(map(self._step, output.fields if isinstance(output, relax.Tuple) else [output]))

    def _step(self, output: relax.Expr) -> float | None:
        value = self._value(output)
        if str(getattr(value.ty, "dtype", "")) in ("int8", "uint8"):
            return 1.0
        while isinstance(value, relax.Call) and value.op in MOVES:
            value = self._value(value.args[0])
        if not isinstance(value, relax.Call) or value.op != DEQUANTIZE:
            return None
        scale = self._constant(value.args[1])
        return None if scale is None else float(scale.max())

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """TVM's name."""
        if call.op in (QUANTIZE, DEQUANTIZE):
            data, *parameters = super().visit_call_(call).args
            return relax.Call(call.op, [data, *map(_as_argument, parameters)], call.attrs)
        if call.op not in PRODUCTS or not any(self._is_dequantized(one) for one in call.args):
            return super().visit_call_(call)
        name = PRODUCTS[call.op]
        try:
            product = self._product(call, name)
        except _Kept as why:
            self.floats[name, str(why)] += 1
            return super().visit_call_(call)
        self.integers[name] += 1
        return product

    def _product(self, call: relax.Call, name: str) -> relax.Expr:
        if self._instruction is None:
            raise _Kept("no instructions for products of 8-bit integers are known of the target")
        if str(call.ty.dtype) != "float32":
            raise _Kept(f"its result is {call.ty.dtype}")
        if name == "matmul":
            return self._matmul(call, self._instruction)
        if name == "conv2d":
            return self._conv2d(call, self._instruction)
        raise _Kept("only products of matrices and conv2d have an integer form")

    def _matmul(self, call: relax.Call, instruction: Instruction) -> relax.Expr:
        data, weights = self._data(call.args[0]), self._weights(call.args[1], outputs=-1)
        extents = _extents(call.args[0])
        if len(extents) < 2 or weights.integers.ndim != 2:
            raise _Kept("only a matrix of weights has an integer form")
        product = Product(extents, weights.integers.shape[-1])
        return self._scaled(product, self._converted(data, instruction), weights, instruction)

    def _conv2d(self, call: relax.Call, instruction: Instruction) -> relax.Expr:
        attrs = call.attrs
        layout, kernel = str(attrs.data_layout), str(attrs.kernel_layout)
        if layout not in _CHANNELS_LAST or kernel not in _KERNELS or str(attrs.out_layout) != layout:
            raise _Kept(f"its layouts are {layout} and {kernel}")
        if int(attrs.groups) != 1:
            raise _Kept("its channels are in groups")
        data, weights = self._data(call.args[0]), self._weights(call.args[1], outputs=kernel.index("O"))
        weights = weights._replace(integers=weights.integers.transpose(_KERNELS[kernel]))
        height, width, *_ = weights.integers.shape
        strides, dilation, padding = (tuple(map(int, one)) for one in (attrs.strides, attrs.dilation, attrs.padding))
        window = Window((height, width), strides, dilation, padding)
        extents = tuple(_extents(call.args[0])[axis] for axis in _CHANNELS_LAST[layout])
        images = self._converted(data, instruction)
        product = Product(extents, weights.integers.shape[-1], window, images.zero_point)
        if layout == "NHWC":
            return self._scaled(product, images, weights, instruction)
        last = self.builder_.emit(relax.op.permute_dims(images.integers, _CHANNELS_LAST[layout]))
        result = self.builder_.emit(self._scaled(product, images._replace(integers=last), weights, instruction))
        return self.builder_.normalize(relax.op.permute_dims(result, _FROM_CHANNELS_LAST[layout]))

    def _scaled(self, product: Product, data: _Data, weights: _Weights, instruction: Instruction) -> relax.Expr:
        """The product of integers, without what the zero point adds to it, times both scales."""
        terms = weights.integers.size // product.outputs
        if terms > MOST_TERMS:
            raise _Kept(f"a sum of {terms:,} products doesn't fit into 32 bits")
        called = self.builder_.add_func(
            function(product, instruction), "int8_conv2d" if product.window else "int8_matmul"
        )
        arguments = [data.integers, relax.const(packed(weights.integers, instruction))]
        result = relax.TensorType((*product.rows, product.outputs), "int32")
        total = self.builder_.emit(relax.call_tir(called, arguments, result))
        if data.zero_point:
            sums = weights.integers.sum(axis=tuple(range(weights.integers.ndim - 1)), dtype="int64")
            total = self.builder_.emit(relax.op.add(total, relax.const((-data.zero_point * sums).astype("int32"))))
        scales = (np.float32(data.scale) * weights.scale).astype("float32")
        floats = self.builder_.emit(relax.op.astype(total, "float32"))
        return self.builder_.normalize(relax.op.multiply(floats, relax.const(scales)))

    def _value(self, expr: relax.Expr) -> Any:
        """What the variable is bound to, or the expression itself."""
        while isinstance(expr, relax.Var) and expr in self._values:
            expr = self._values[expr]
        return expr

    def _is_dequantized(self, expr: relax.Expr) -> bool:
        value = self._value(expr)
        while isinstance(value, relax.Call) and value.op == PERMUTE:
            value = self._value(value.args[0])
        return isinstance(value, relax.Call) and value.op == DEQUANTIZE

    def _data(self, expr: relax.Expr) -> _Data:
        value = self._value(expr)
        if not isinstance(value, relax.Call) or value.op != DEQUANTIZE:
            raise _Kept("its data isn't dequantized just before it")
        integers, scale, zero_point = value.args
        if str(integers.ty.dtype) not in ("int8", "uint8"):
            raise _Kept(f"its data is {integers.ty.dtype}")
        scales, zero_points = self._constant(scale), self._constant(zero_point)
        if scales is None or zero_points is None or scales.size != 1 or zero_points.size != 1:
            raise _Kept("its data has more than one scale")
        return _Data(integers, float(scales.ravel()[0]), int(zero_points.ravel()[0]))

    def _weights(self, expr: relax.Expr, outputs: int) -> _Weights:
        """`outputs` is the axis of the outputs, which may have a scale each."""
        value, permutations = self._value(expr), []
        while isinstance(value, relax.Call) and value.op == PERMUTE:
            axes = value.attrs.axes
            permutations.append(None if axes is None else [int(axis) for axis in axes])
            value = self._value(value.args[0])
        if not isinstance(value, relax.Call) or value.op != DEQUANTIZE:
            raise _Kept("its weights aren't quantized")
        integers, scale, zero_point = (self._constant(one) for one in value.args)
        if integers is None or scale is None or zero_point is None:
            raise _Kept("its weights aren't constant")
        if integers.dtype not in (np.int8, np.uint8):
            raise _Kept(f"its weights are {integers.dtype}")
        shift = HALF if integers.dtype == np.uint8 else 0
        if np.any(zero_point.astype("int32") != shift):
            raise _Kept("its weights have a zero point")
        axis = int(value.attrs.axis) % integers.ndim
        scales = _along(scale, axis, integers.ndim)
        signed = (integers.astype("int16") - shift).astype("int8")
        for axes in reversed(permutations):
            signed, scales = signed.transpose(axes), scales.transpose(axes)
        if scales.size != scales.shape[outputs]:
            raise _Kept("its weights don't have a scale for each output")
        return _Weights(signed, scales.ravel())

    def _constant(self, expr: relax.Expr) -> Any:
        value = self._value(expr)
        return value.value.numpy() if isinstance(value, GenericConst) else None

    def _converted(self, data: _Data, instruction: Instruction) -> _Data:
        """The data in the type that the instruction takes."""
        if str(data.integers.ty.dtype) == instruction.data:
            return data._replace(integers=self.visit_expr(data.integers))
        shift = HALF if instruction.data == "uint8" else -HALF
        if data.integers not in self._moved:
            self._moved[data.integers] = self.builder_.emit(self._shifted(data.integers, instruction.data, shift))
        return data._replace(integers=self._moved[data.integers], zero_point=data.zero_point + shift)

    def _shifted(self, integers: relax.Expr, dtype: str, shift: int) -> relax.Expr:
        value = self._value(integers)
        if isinstance(value, relax.Call) and value.op == QUANTIZE:
            zero_point = self._constant(value.args[2])
            if zero_point is not None:
                moved = relax.const((zero_point.astype("int16") + shift).astype(dtype))
                floats, scale = (self.visit_expr(one) for one in value.args[:2])
                return relax.op.quantize(
                    floats, _as_argument(scale), _as_argument(moved), axis=int(value.attrs.axis), out_dtype=dtype
                )
        wide = self.builder_.emit(relax.op.astype(self.visit_expr(integers), "int16"))
        return relax.op.astype(self.builder_.emit(relax.op.add(wide, relax.const(np.int16(shift)))), dtype)


def _as_argument(parameter: relax.Expr) -> relax.Expr:
    """A scale or zero point such that TVM makes an argument of it, and no number in the code: layers of one shape then are one task."""
    is_number = isinstance(parameter, GenericConst) and parameter.ty.ndim == 0
    return relax.const(parameter.value.numpy().reshape(1)) if is_number else parameter


def _along(scale: Any, axis: int, ndim: int) -> Any:
    """Scales with as many axes as what they are for."""
    return (
        scale.reshape([1] * ndim)
        if scale.size == 1
        else scale.reshape([-1 if nth == axis else 1 for nth in range(ndim)])
    )


def _extents(expr: relax.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in expr.ty.shape)
