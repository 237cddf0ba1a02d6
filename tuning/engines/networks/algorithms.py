"""Other ways to compute a network's convolutions, and the network with some of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tvm import IRModule, relax
from tvm.ir import GenericConst
from tvm.target import Target

from tuning.engines.targets.registers import registers

from .extraction import CALL_TIR, calls, extract, legalized, workload_hash
from .tensorir import fixed_shape
from .winograd.convolutions import KERNEL, Convolution, lanes_of, weights
from .winograd.functions import function

_AXES = {"NHWC": (0, 1, 2, 3), "NCHW": (2, 3, 1, 0)}
"""By layout of the data, the axes of a kernel that are height, width, channels and filters."""
_KERNELS = {"NHWC": "HWIO", "NCHW": "OIHW"}


class Rival(NamedTuple):
    """A task that computes the same as another one of the network, by another algorithm."""

    task: Any
    of: int
    """The index of that one."""


def rivals(mod: IRModule, target: Target, extracted: list[Any], *, in_parts: bool) -> list[Rival]:
    """What can be tuned besides the tasks `extracted` from the network, at most one for each of them."""
    direct, other = legalized(mod, target), _by_winograd(mod, target, in_parts=in_parts)
    index = {str(task.task_name): nth for nth, task in enumerate(extracted)}
    own = {workload_hash(task) for task in extracted}
    of = {_name(new): index.get(_name(old)) for old, new in _pairs(direct, other)}
    tasks = ((task, of.get(str(task.task_name))) for task in extract(other, target) if workload_hash(task) not in own)
    return [Rival(task, nth) for task, nth in tasks if nth is not None]


def chosen(mod: IRModule, target: Target, is_faster: Callable[[Any, Any], bool], *, in_parts: bool) -> IRModule:
    """The network legalized, with other algorithms where `is_faster` says so, given the other's function and the direct one's."""
    direct, other = legalized(mod, target), _by_winograd(mod, target, in_parts=in_parts)
    found = [
        new if _name(new) != _name(old) and is_faster(other[_name(new)], direct[_name(old)]) else None
        for old, new in _pairs(direct, other)
    ]
    return _Replacing(direct, other, found).replaced() if any(new is not None for new in found) else direct


def _by_winograd(mod: IRModule, target: Target, *, in_parts: bool) -> IRModule:
    """The network legalized, with Winograd's algorithm wherever it can be used. Its transforms are written for CPUs."""
    if str(target.kind.name) == "llvm":
        lanes = lanes_of(registers(target), in_parts=in_parts)
        rewrite = partial(_legalized, lanes=lanes, in_parts=in_parts)
        mod = relax.transform.LegalizeOps({"relax.nn.conv2d": rewrite})(mod)
    return legalized(mod, target)


def _legalized(builder: relax.BlockBuilder, call: relax.Call, *, lanes: int, in_parts: bool) -> relax.Expr:
    if (conv := _convolution(call, lanes, in_parts=in_parts)) is None:
        return call.op.get_attr("FLegalize")(builder, call)
    data, kernel = call.args
    transformed = weights(conv, kernel.value.numpy().transpose(_AXES[conv.layout]))
    of_conv = builder.add_func(function(conv), f"winograd_f{conv.m}_conv2d")
    return relax.call_tir(of_conv, [data, relax.const(transformed)], call.ty)


def _convolution(call: relax.Call, lanes: int, *, in_parts: bool) -> Convolution | None:
    """The convolution that the call is, if Winograd's algorithm can compute it."""
    attrs, (data, kernel) = call.attrs, call.args
    layout: Any = str(attrs.data_layout)
    if layout not in _AXES or (attrs.kernel_layout, attrs.out_layout) != (_KERNELS[layout], layout):
        return None
    shape = fixed_shape(data, "float32")
    if not isinstance(kernel, GenericConst) or shape is None or fixed_shape(call, "float32") is None:
        return None
    extents = dict(zip(layout, shape, strict=True))
    height, width, channels, filters = (int(kernel.value.shape[axis]) for axis in _AXES[layout])
    fits = (height, width, channels) == (KERNEL, KERNEL, extents["C"])
    plain = all(int(one) == 1 for one in (*attrs.strides, *attrs.dilation, attrs.groups))
    padding: Any = tuple(map(int, attrs.padding))
    if not fits or not plain or channels % lanes or filters % lanes or max(padding) >= KERNEL:
        return None
    return Convolution(
        batch=extents["N"],
        height=extents["H"],
        width=extents["W"],
        channels=channels,
        filters=filters,
        padding=padding,
        layout=layout,
        lanes=lanes,
        in_parts=in_parts,
    )


def _pairs(direct: IRModule, other: IRModule) -> list[tuple[Any, Any]]:
    """The calls of both networks that compute the same; none if their operators were fused differently."""
    old, new = calls(direct["main"]), calls(other["main"])
    return list(zip(old, new, strict=True)) if len(old) == len(new) else []


def _name(call: Any) -> str:
    return str(call.args[0].name_hint)


@relax.expr_functor.mutator
class _Replacing(relax.PyExprMutator):  # type: ignore[misc]
    """Has the n-th call of a network's functions be the n-th of others, if there is one, on the same variables."""

    def __init__(self, mod: IRModule, other: IRModule, others: list[Any]) -> None:
        super().__init__(mod)
        self._mod = mod
        self._other = other
        self._others = iter(others)

    def replaced(self) -> IRModule:
        main = self.visit_expr(self._mod["main"])
        self.builder_.update_func(self._mod.get_global_var("main"), main)
        return relax.transform.DeadCodeElimination()(self.builder_.get())

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """TVM's name."""
        if call.op != CALL_TIR or (new := next(self._others)) is None:
            return super().visit_call_(call)
        function = self.builder_.add_func(self._other[_name(new)], _name(new))
        arguments = [
            theirs if isinstance(theirs, GenericConst) else self.visit_expr(ours)
            for ours, theirs in zip(call.args[1], new.args[1], strict=True)
        ]
        return relax.call_tir(function, arguments, call.ty)
