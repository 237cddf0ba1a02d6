"""A network with its transposed convolutions computed by phase."""

from __future__ import annotations

from tvm import IRModule, relax
from tvm.ir import GenericConst, Op

from tuning.engines.networks.tensorir import fixed_shape, with_calls_replaced

from .functions import Transposed, Window, function, weights

OPERATORS = {Op.get(f"relax.nn.conv{len(axes)}d_transpose"): axes for axes in ("W", "HW", "DHW")}
"""With the axes of their images."""
FLOATS = ("float16", "float32", "float64")


def by_phase(mod: IRModule) -> IRModule:
    """The network with functions in place of transposed convolutions with constant weights and a stride; the same one if it has none.

    Left as they are: those with groups or dilation, or whose output isn't a multiple of the stride.
    """
    return with_calls_replaced(mod, _replacement)


def _replacement(call: relax.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
    if (conv := transposed(call)) is None:
        return None
    data, kernel = call.args
    axes = [str(call.attrs.kernel_layout).index(axis) for axis in ("I", "O", *conv.windows)]
    packed = relax.const(weights(conv, kernel.value.numpy().transpose(axes)), conv.dtype)
    name = str(call.op.name).rpartition(".")[2]
    return relax.call_tir(builder.add_func(function(conv), f"{name}_by_phase"), [data, packed], call.ty)


def transposed(call: relax.Call) -> Transposed | None:
    """The transposed convolution that the call is, if it can be computed by phase."""
    axes = OPERATORS.get(call.op) if isinstance(call.op, Op) else None
    if axes is None:
        return None
    (data, kernel), attrs, layout = call.args, call.attrs, str(call.attrs.data_layout)
    given, made = fixed_shape(data, *FLOATS), fixed_shape(call, *FLOATS)
    is_plain = str(attrs.out_layout) == layout and int(attrs.groups) == 1 and {*map(int, attrs.dilation)} == {1}
    if not is_plain or not isinstance(kernel, GenericConst) or given is None or made is None:
        return None
    inputs, outputs = (dict(zip(layout, shape, strict=True)) for shape in (given, made))
    weighs = dict(zip(str(attrs.kernel_layout), map(int, kernel.value.shape), strict=True))
    strides = dict(zip(axes, map(int, attrs.strides), strict=True))
    padding = dict(zip(axes, map(int, attrs.padding), strict=False))
    has_phases = max(strides.values()) > 1 and not any(outputs[axis] % stride for axis, stride in strides.items())
    if not has_phases:
        return None
    windows = {axis: Window(inputs[axis], outputs[axis], weighs[axis], strides[axis], padding[axis]) for axis in axes}
    return Transposed(layout, inputs["N"], weighs["I"], weighs["O"], windows, str(call.ty.dtype))
