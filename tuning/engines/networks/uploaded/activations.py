"""An uploaded network's leaky ReLUs and bounds as maxima and minima, which TVM can lay out either way. For its own operators, it transposes the data.

YOLO has leaky ReLUs. MobileNetV3 has HardSwish and HardSigmoid, of which TVM's importer makes bounds. Of a Clip of opsets before 11, as MobileNetV2 files
have, it makes functions.
"""

from __future__ import annotations

from tvm import IRModule, relax, tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule.schedule import ScheduleError

from tuning.engines.networks.tensorir import with_calls_replaced

from .layouts import BOUNDS, CALL_TIR

LEAKY_RELU, CLIP = "relax.nn.leakyrelu", "relax.clip"
EXTREMA = {tirx.Max: relax.op.maximum, tirx.Min: relax.op.minimum}


def as_extrema(mod: IRModule) -> IRModule:
    """The network with max(x, α · x) in place of leaky ReLUs, where α is between 0 and 1, and max(min(x, high), low) in place of bounds, of floats.

    The same one if it has none.
    """

    def replacement(call: relax.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
        if call.op == CALL_TIR:
            return _bounded(call, mod[call.args[0]])
        name = str(getattr(call.op, "name", ""))
        if name not in (LEAKY_RELU, CLIP) or not str(call.args[0].ty.dtype).startswith("float"):
            return None
        if name == CLIP:
            x, low, high = call.args
            return relax.op.maximum(builder.emit(relax.op.minimum(x, _like(x, high.value))), _like(x, low.value))
        (x,) = call.args
        if not 0 <= float(call.attrs.alpha) <= 1:
            return None
        return relax.op.maximum(x, builder.emit(relax.op.multiply(x, _like(x, call.attrs.alpha))))

    return with_calls_replaced(mod, replacement)


def _bounded(call: relax.Call, function: tirx.PrimFunc) -> relax.Expr | None:
    """The operator that the function is, if it does nothing but to bound each of a tensor's numbers by the same one."""
    if len(call.args[1]) != 1 or str(call.args[0].name_hint).rstrip("0123456789") not in BOUNDS:
        return None
    (x,) = call.args[1]
    schedule = Schedule(IRModule({"main": function}))
    try:
        (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    except (ScheduleError, ValueError):  # It has no blocks, or several: it isn't the importer's.
        return None
    store = schedule.get(block).body
    extremum = EXTREMA.get(type(getattr(store, "value", None)))
    if extremum is None:
        return None
    value, bound = store.value.a, store.value.b
    if not isinstance(value, TensorLoad) or not isinstance(bound, tirx.FloatImm):
        return None
    is_elementwise = all(one.same_as(other) for one, other in zip(value.indices, store.indices, strict=True))
    return extremum(x, _like(x, bound.value)) if is_elementwise else None


def _like(x: relax.Expr, value: float) -> relax.Constant:
    """The number, in the tensor's type."""
    return relax.const(float(value), str(x.ty.dtype))
