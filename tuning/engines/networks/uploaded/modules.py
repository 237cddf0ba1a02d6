"""Reads IRModules in TVM's JSON (`tvm.ir.save_json`).

Only Relax functions with TVM's operators are accepted, because TensorIR and external functions can call any function
of the process.
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

from .checks import check_dims, check_memory, listed

NOT_LEGALIZED = frozenset(
    f"relax.{name}"
    for name in ("argsort", "cumprod", "cumsum", "ewise_fma", "nonzero", "shape_of", "sort", "topk", "unique")
)
"""Operators of networks that TVM lowers in a later pass. The others that it doesn't legalize are internal."""


class _Saved(msgspec.Struct):
    """The top level of TVM's JSON."""

    nodes: list[msgspec.Raw]
    root_index: int
    metadata: dict[str, str] = {}


def read(data: bytes, dims: dict[str, int]) -> tuple[IRModule, int, dict[str, int]]:
    """The module, its number of parameters, and its operators with Relax's names. Raises `Refused`."""
    _check_version(data)
    mod = _loaded(data)
    operators = _operators(mod)
    mod = _fixed(mod, dims)
    return mod, _parameters(mod), operators


def _check_version(data: bytes) -> None:
    try:
        saved = msgspec.json.decode(data, type=_Saved)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(f"The file is not an IRModule written by tvm.ir.save_json: {error}.") from error
    saved_by, here = saved.metadata.get("tvm_version", ""), versions.in_use()["apache-tvm"]
    if saved_by.split(".")[:2] != here.split(".")[:2]:
        raise Refused(
            f"The module was saved by {f'TVM {saved_by}' if saved_by else 'an unknown version of TVM'}, "
            f"but only modules saved by TVM {here} can be read. Save it again with that version, or as ONNX."
        )


def _loaded(data: bytes) -> IRModule:
    try:
        mod = tvm.ir.load_json(data.decode())
    except Exception as error:
        check_memory(error)
        reason = last_line(str(error)) or type(error).__name__
        raise Refused(f"TVM can't read this IRModule: {reason}") from error
    if not isinstance(mod, IRModule):
        raise Refused(f"The file contains a {type(mod).__name__} instead of an IRModule.")
    return mod


def _operators(mod: IRModule) -> dict[str, int]:
    """Count the operators by name, and require that there is nothing else."""
    names = {str(var.name_hint): function for var, function in mod.functions.items()}
    if others := [
        f"{name} ({type(one).__name__})" for name, one in names.items() if not isinstance(one, relax.Function)
    ]:
        raise Refused(
            f"The module has functions that aren't Relax functions: {listed(others)}. Save it before it is legalized."
        )
    if "main" not in names:
        raise Refused(f"The module has no function main. It has: {listed(names) or 'none at all'}.")
    called = [call for function in names.values() for call in _calls(function)]
    if others := [name for name in map(_not_tunable, called) if name]:
        raise Refused(f"The module calls operators that can't be tuned or aren't allowed: {listed(others)}.")
    return dict(Counter(str(call.op.name).removeprefix("relax.") for call in called if isinstance(call.op, Op)))


def _calls(function: Any) -> Iterator[Any]:
    found: list[Any] = []
    relax.analysis.post_order_visit(function, found.append)
    if any(isinstance(expr, relax.ExternFunc) for expr in found):
        names = (str(expr.global_symbol) for expr in found if isinstance(expr, relax.ExternFunc))
        raise Refused(f"The module calls external functions, which isn't allowed: {listed(names)}.")
    return (expr for expr in found if isinstance(expr, relax.Call))


def _not_tunable(call: Any) -> str | None:
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
    """How many floating-point numbers the module's constants hold."""
    found: list[Any] = []
    relax.analysis.post_order_visit(mod["main"], found.append)
    shapes = [expr.ty for expr in found if isinstance(expr, GenericConst) and isinstance(expr.ty, relax.TensorType)]
    return sum(prod(int(extent) for extent in ty.shape) for ty in shapes if "float" in str(ty.dtype))
