"""An uploaded network's leaky ReLUs and bounds as maxima and minima, which TVM can lay out either way. For its own operators, it transposes the data.

YOLO has leaky ReLUs. MobileNetV3 has HardSwish and HardSigmoid, of which TVM's importer makes bounds.
"""

from __future__ import annotations

from tvm import IRModule, relax

from tuning.engines.networks.tensorir import with_calls_replaced

LEAKY_RELU, CLIP = "relax.nn.leakyrelu", "relax.clip"


def as_extrema(mod: IRModule) -> IRModule:
    """The network with max(x, α · x) in place of leaky ReLUs, where α is between 0 and 1, and max(min(x, high), low) in place of bounds, of floats.

    The same one if it has none.
    """
    return with_calls_replaced(mod, _replacement)


def _replacement(call: relax.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
    name = str(getattr(call.op, "name", ""))
    if name not in (LEAKY_RELU, CLIP) or not str(call.args[0].ty.dtype).startswith("float"):
        return None
    if name == LEAKY_RELU and 0 <= float(call.attrs.alpha) <= 1:
        (x,) = call.args
        return relax.op.maximum(x, builder.emit(relax.op.multiply(x, _like(x, call.attrs.alpha))))
    if name == CLIP:
        x, low, high = call.args
        return relax.op.maximum(builder.emit(relax.op.minimum(x, _like(x, high.value))), _like(x, low.value))
    return None


def _like(x: relax.Expr, value: float) -> relax.Constant:
    """The number, in the tensor's type."""
    return relax.const(float(value), str(x.ty.dtype))
