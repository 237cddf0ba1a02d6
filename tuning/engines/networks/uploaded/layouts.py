"""The convolutions of an uploaded network with their channels last, as CPUs compute them faster. ONNX files have them first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import IRModule, relax
from tvm.ir import Op
from tvm.ir.transform import Sequential

WORTH = 4
"""Convolutions for each transposition of data that it takes, at least."""
PERMUTE = Op.get("relax.permute_dims")
CONVOLUTIONS = {f"relax.nn.conv{len(axes)}d": axes for axes in ("W", "HW", "DHW")}
TRANSPOSED = {f"{name}_transpose": axes for name, axes in CONVOLUTIONS.items()}


def with_channels_last(mod: IRModule, is_supported: Callable[[Any], bool]) -> IRModule:
    """The network with the same inputs and outputs; the same one if that would take many transpositions.

    `is_supported` says whether a transposed convolution can be computed so: TVM has no functions for that.
    """
    asked = 0

    def layouts(call: relax.Call) -> dict[str, list[str]]:
        nonlocal asked
        name = str(call.op.name)
        if axes := CONVOLUTIONS.get(name):
            asked += 1
            return {name: [f"N{axes}C", f"{axes}IO"]}
        if axes := TRANSPOSED.get(name):
            is_last = is_supported(call)
            asked += is_last
            return {name: [f"N{axes}C", f"{axes}IO"] if is_last else [f"NC{axes}", f"IO{axes}"]}
        return {}

    converted = Sequential(
        [
            relax.transform.ConvertLayout({}, layouts),
            relax.transform.EliminateCommonSubexpr(),  # It transposes a value for each of its uses.
            relax.transform.FoldConstant(),
            relax.transform.CanonicalizeBindings(),
            relax.transform.DeadCodeElimination(["main"]),
        ]
    )(mod)
    return converted if asked >= WORTH * max(1, _permutations(converted) - _permutations(mod)) else mod


def _permutations(mod: IRModule) -> int:
    found: list[Any] = []
    relax.analysis.post_order_visit(mod["main"], found.append)
    return sum(isinstance(one, relax.Call) and one.op == PERMUTE for one in found)
