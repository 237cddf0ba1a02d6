"""The stand-in's operators: packing, and a packed convolution with a few knobs."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import autotvm, relay, te, tir, topi
from tvm.relay.op import op as _op
from tvm.relay.op import strategy
from tvm.topi.utils import get_const_tuple, traverse_inline

from . import FAULTS

DATA, KERNEL = "NCHW1n16c", "OIHW16o16i"


class _Packing(relay.ExprMutator):  # type: ignore[misc]
    """Gives convolutions of as many channels as fit VTA's layouts, and leaves the rest as it is."""

    def visit_call(self, call: Any) -> Any:
        new = super().visit_call(call)
        if getattr(call.op, "name", "") != "nn.conv2d":
            return new
        filters, channels, *_ = get_const_tuple(call.args[1].checked_type.shape)
        if channels % 16 or filters % 16:
            return new
        data = relay.layout_transform(new.args[0], "NCHW", DATA)
        kernel = relay.layout_transform(new.args[1], "OIHW", KERNEL)
        attrs = {
            name: call.attrs[name]
            for name in ("strides", "padding", "dilation", "channels", "kernel_size", "out_dtype")
        }
        packed = relay.nn.conv2d(data, kernel, data_layout=DATA, kernel_layout=KERNEL, **attrs)
        return relay.layout_transform(packed, DATA, "NCHW")


def graph_pack(  # noqa: PLR0917 - as VTA has it
    expr: Any, bfactor: int, cfactor: int, weight_bits: int, start_name: str = "", stop_name: str = ""
) -> Any:
    """Packs all convolutions that it can; as in VTA, the names must be operators of the network."""
    assert (bfactor, cfactor, weight_bits) == (1, 16, 8)
    names = set()
    relay.analysis.post_order_visit(expr, lambda one: names.add(getattr(getattr(one, "op", None), "name", "")))
    assert {start_name, stop_name} <= names, f"{start_name} or {stop_name} isn't in the network"
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(expr))
    return _Packing().visit(mod["main"])


@autotvm.register_topi_compute("conv2d_packed.vta")  # type: ignore[untyped-decorator]
def conv2d_packed(  # noqa: PLR0917 - as VTA has it
    cfg: Any, data: Any, kernel: Any, strides: Any, padding: Any, dilation: Any, layout: str, out_dtype: str
) -> Any:
    batch, chunks, height, width, inner_batch, inner = get_const_tuple(data.shape)
    filters, _, kernel_height, kernel_width, out_block, _ = get_const_tuple(kernel.shape)
    top, left, bottom, right = padding if len(padding) == 4 else (*padding, *padding)
    padded = te.compute(
        (batch, chunks, height + top + bottom, width + left + right, inner_batch, inner),
        lambda n, c, y, x, bn, bc: tir.if_then_else(
            tir.all(y >= top, y < height + top, x >= left, x < width + left),
            data[n, c, y - top, x - left, bn, bc],
            tir.const(0, data.dtype),
        ),
        name="padded",
    )
    high = (height + top + bottom - kernel_height) // strides[0] + 1
    wide = (width + left + right - kernel_width) // strides[1] + 1
    over = [te.reduce_axis((0, extent)) for extent in (chunks, inner, kernel_height, kernel_width)]
    chunk, lane, down, across = over
    cfg.define_split("tile_h", cfg.axis(high), num_outputs=2)
    cfg.define_split("tile_w", cfg.axis(wide), num_outputs=2)
    cfg.define_knob("oc_nthread", [1, 2])
    cfg.add_flop(
        2 * batch * filters * high * wide * inner_batch * out_block * chunks * inner * kernel_height * kernel_width
    )
    return te.compute(
        (batch, filters, high, wide, inner_batch, out_block),
        lambda n, f, y, x, bn, bf: te.sum(
            padded[n, chunk, y * strides[0] + down, x * strides[1] + across, bn, lane].astype(out_dtype)
            * kernel[f, chunk, down, across, bf, lane].astype(out_dtype),
            axis=over,
        ),
        name="sums",
        tag="conv2d_dense",
    )


@autotvm.register_topi_schedule("conv2d_packed.vta")  # type: ignore[untyped-decorator]
def schedule_conv2d_packed(cfg: Any, outs: Any) -> Any:
    """Half of the candidates fail if VTA_STAND_IN_FAULT names `compile`, as many of VTA's do."""
    schedule = te.create_schedule([out.op for out in outs])
    if "compile" in FAULTS and cfg["oc_nthread"].val == 2:
        raise RuntimeError("Cannot match copy pattern of a stand-in")

    def visit(op: Any) -> None:
        if op.tag == "conv2d_dense":
            schedule[op.input_tensors[0]].compute_inline()
            y, x = schedule[op].op.axis[2:4]
            cfg["tile_h"].apply(schedule, op, y)
            cfg["tile_w"].apply(schedule, op, x)

    traverse_inline(schedule, outs[0].op, visit)
    return schedule


@strategy.conv2d_strategy.register("vta")  # type: ignore[untyped-decorator]
def conv2d_strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
    if attrs.data_layout != DATA:
        return strategy.x86.conv2d_strategy_cpu(attrs, inputs, out_type, target)
    chosen = _op.OpStrategy()
    chosen.add_implementation(
        strategy.wrap_compute_conv2d(conv2d_packed, need_data_layout=True),
        strategy.wrap_topi_schedule(schedule_conv2d_packed),
        name="conv2d_packed.vta",
    )
    return chosen


def _injective(compute: Any) -> Any:
    """For what some older TVMs schedule only for their own devices. VTA brings strategies of its own."""

    def chosen(_attrs: Any, _inputs: Any, _out_type: Any, _target: Any) -> Any:
        found = _op.OpStrategy()
        found.add_implementation(
            compute, strategy.wrap_topi_schedule(topi.x86.schedule_injective), name="injective.vta"
        )
        return found

    return chosen


def _rearranged(attrs: Any, inputs: Any, _out_type: Any) -> Any:
    return [topi.layout_transform(inputs[0], attrs.src_layout, attrs.dst_layout)]


INJECTIVE = {
    name: strategy.wrap_topi_compute(getattr(topi, name)) for name in ("add", "subtract", "multiply", "divide")
}
INJECTIVE["layout_transform"] = _rearranged
for name, compute in INJECTIVE.items():
    _op.get(name).get_attr("FTVMStrategy").register(_injective(compute), "vta")
