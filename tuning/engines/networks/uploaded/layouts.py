"""The convolutions of an uploaded network with their channels last, as CPUs compute them faster. ONNX files have them first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from tvm import IRModule, relax
from tvm.ir import Op
from tvm.ir.transform import Sequential

from tuning.engines.wire.errors import in_one_line

from .constants import PERMUTE, folded

logger = logging.getLogger(__name__)
WORTH = 4
"""Convolutions for each transposition of data that it takes, at least."""
CALL_TIR = Op.get("relax.call_tir")
CONVOLUTIONS = {f"relax.nn.conv{len(axes)}d": axes for axes in ("W", "HW", "DHW")}
TRANSPOSED = {f"{name}_transpose": axes for name, axes in CONVOLUTIONS.items()}
BOUNDS = {"maximum": relax.op.maximum, "minimum": relax.op.minimum}
"""By the names of the functions that TVM's importer makes of an ONNX file's Clip."""


def with_channels_last(mod: IRModule, is_supported: Callable[[Any], bool]) -> IRModule:
    """The network with the same inputs and outputs; the same one if that would take many transpositions, or TVM can't do it.

    `is_supported` says whether a transposed convolution can be computed so: TVM has no functions for that.
    """

    def layouts(call: relax.Call) -> dict[str, list[str]]:
        name = str(call.op.name)
        if axes := CONVOLUTIONS.get(name):
            return {name: [f"N{axes}C", f"{axes}IO"]}
        if axes := TRANSPOSED.get(name):
            return {name: [f"N{axes}C", f"{axes}IO"] if is_supported(call) else [f"NC{axes}", f"IO{axes}"]}
        return {}

    wanted = sum(name in CONVOLUTIONS or (name in TRANSPOSED and is_supported(call)) for name, call in _operators(mod))
    if wanted < WORTH:
        return mod
    try:
        converted = _converted(_with_bounds(mod), layouts)
        if wanted < WORTH * (_transpositions(converted) - _transpositions(mod)):
            return mod
        unknown = _not_lowered(converted) - _not_lowered(mod) - TRANSPOSED.keys()
    except Exception as error:  # noqa: BLE001  TVM raises errors of any kind
        logger.warning("The network's layout stays as it is: TVM can't convert it: %s", in_one_line(error))
        return mod
    if unknown:
        logger.warning("The network's layout stays as it is: TVM has no function for %s.", ", ".join(sorted(unknown)))
        return mod
    return converted


def _converted(mod: IRModule, layouts: Callable[[Any], dict[str, list[str]]]) -> IRModule:
    steps = [
        relax.transform.ConvertLayout({}, layouts),
        relax.transform.EliminateCommonSubexpr(),  # It transposes a value for each of its uses.
    ]
    return folded(Sequential(steps)(mod))


def _transpositions(mod: IRModule) -> int:
    return sum(name == PERMUTE for name, _ in _operators(mod))


def _not_lowered(mod: IRModule) -> set[str]:
    """Operators that TVM has no functions for, and its calls of functions."""
    return {name for name, _ in _operators(relax.transform.LegalizeOps()(mod))}


def _operators(mod: IRModule) -> Iterator[tuple[str, Any]]:
    """The name of each operator that the network calls, and the call."""
    found: list[Any] = []
    relax.analysis.post_order_visit(mod["main"], found.append)
    return ((str(one.op.name), one) for one in found if isinstance(one, relax.Call) and isinstance(one.op, Op))


def _with_bounds(mod: IRModule) -> IRModule:
    bounding = _Bounding(mod)
    main = bounding.visit_expr(mod["main"])
    bounding.builder_.update_func(mod.get_global_var("main"), main)
    return bounding.builder_.get()


@relax.expr_functor.mutator
class _Bounding(relax.PyExprMutator):  # type: ignore[misc]
    """Puts operators in place of functions that have any: TVM transposes data for functions, and converts operators."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """TVM's name."""
        call = super().visit_call_(call)
        name = str(call.args[0].name_hint).rstrip("0123456789") if call.op == CALL_TIR else ""
        has_bound = name in BOUNDS and len(call.args[1]) > 1
        return BOUNDS[name](*call.args[1]) if has_bound else call
