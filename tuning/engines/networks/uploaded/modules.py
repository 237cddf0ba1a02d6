"""IRModules in TVM's JSON (`tvm.ir.save_json`).

Only Relax functions of TVM's own operators are taken: TensorIR and external functions can call whatever is in the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import msgspec
import tvm
from tvm import IRModule, relax
from tvm.ir import GenericConst, GlobalVar, Op

from tuning.engines.wire import versions
from tuning.engines.wire.errors import Refused, last_line

from .wording import check_dims, check_memory, listed

NOT_LEGALIZED = frozenset(
    f"relax.{name}"
    for name in ("argsort", "cumprod", "cumsum", "ewise_fma", "nonzero", "shape_of", "sort", "topk", "unique")
)
"""Operators of a network's meaning that TVM's legalisation leaves to a later pass. All others without it are the machine's."""


class _Saved(msgspec.Struct):
    """The outermost layer of TVM's JSON."""

    nodes: list[msgspec.Raw]
    root_index: int
    metadata: dict[str, str] = {}


def read(data: bytes, dims: dict[str, int]) -> tuple[IRModule, int, dict[str, int]]:
    """The module, its number of parameters, and its operators by Relax's names. Raises `Refused`."""
    _check_version(data)
    mod = _loaded(data)
    operators = _operators(mod)
    mod = _fixed(mod, dims)
    return mod, _parameters(mod), operators


def _check_version(data: bytes) -> None:
    try:
        saved = msgspec.json.decode(data, type=_Saved)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(f"This is no IRModule as tvm.ir.save_json writes it: {error}.") from error
    made_by, here = saved.metadata.get("tvm_version", "an unnamed version"), versions.in_use()["apache-tvm"]
    if made_by.split(".")[:2] != here.split(".")[:2]:
        raise Refused(
            f"It was saved by TVM {made_by}, and only modules of {here} can be read here. Save it anew, or as ONNX."
        )


def _loaded(data: bytes) -> IRModule:
    try:
        mod = tvm.ir.load_json(data.decode())
    except Exception as error:
        check_memory(error)
        reason = last_line(str(error)) or type(error).__name__
        raise Refused(f"TVM can't read this IRModule: {reason}") from error
    if not isinstance(mod, IRModule):
        raise Refused(f"It holds a {type(mod).__name__}, not an IRModule.")
    return mod


def _operators(mod: IRModule) -> dict[str, int]:
    """Counts by name, once everything is known to be a Relax operator."""
    names = {str(var.name_hint): function for var, function in mod.functions.items()}
    if strange := [
        f"{name} ({type(one).__name__})" for name, one in names.items() if not isinstance(one, relax.Function)
    ]:
        raise Refused(
            f"It has functions that aren't Relax's: {listed(strange)}. Save the module before it is legalised: that is done here."
        )
    if "main" not in names:
        raise Refused(f"It has no function main, but {listed(names) or 'none at all'}.")
    called = [call for function in names.values() for call in _calls(function)]
    if strange := [name for name in map(_strange, called) if name]:
        raise Refused(f"It calls what can't be tuned or isn't allowed here: {listed(strange)}.")
    return dict(Counter(str(call.op.name).removeprefix("relax.") for call in called if isinstance(call.op, Op)))


def _calls(function: Any) -> Iterator[Any]:
    found: list[Any] = []
    relax.analysis.post_order_visit(function, found.append)
    if any(isinstance(expr, relax.ExternFunc) for expr in found):
        names = (str(expr.global_symbol) for expr in found if isinstance(expr, relax.ExternFunc))
        raise Refused(f"It calls external functions, which isn't allowed: {listed(names)}.")
    return (expr for expr in found if isinstance(expr, relax.Call))


def _strange(call: Any) -> str | None:
    if isinstance(call.op, GlobalVar):
        return None
    if not isinstance(call.op, Op):
        return f"a {type(call.op).__name__}"
    name = str(call.op.name)
    return None if name in NOT_LEGALIZED or call.op.get_attr("FLegalize") is not None else name


def _fixed(mod: IRModule, dims: dict[str, int]) -> IRModule:
    names = [str(var.name) for var in relax.analysis.free_symbolic_vars(mod["main"])] or [
        str(var.name) for var in relax.analysis.defined_symbolic_vars(mod["main"])
    ]
    check_dims(dims, names)
    return relax.transform.BindSymbolicVars(dims)(mod) if dims else mod


def _parameters(mod: IRModule) -> int:
    """Floating-point numbers that the module holds."""
    found: list[Any] = []
    relax.analysis.post_order_visit(mod["main"], found.append)
    shapes = [expr.ty for expr in found if isinstance(expr, GenericConst) and isinstance(expr.ty, relax.TensorType)]
    return sum(prod(int(extent) for extent in ty.shape) for ty in shapes if "float" in str(ty.dtype))
