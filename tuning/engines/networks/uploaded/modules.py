"""Reads IRModules in TVM's JSON (`tvm.ir.save_json`).

Only Relax functions with TVM's operators are accepted, because TensorIR and external functions can call any function
of the process. `graph` checks the JSON before TVM reads it. Of what TVM has read, only the functions are kept: attributes can
make `relax.build` link libraries, or hand functions to other compilers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import tvm
from tvm import IRModule, relax
from tvm.ir import GenericConst, GlobalVar, Op

from tuning.engines import saved as files
from tuning.engines.wire import versions
from tuning.engines.wire.errors import Refused, last_line

from . import graph
from .checks import check_dims, check_memory, listed

NOT_LEGALIZED = frozenset(
    f"relax.{name}"
    for name in ("argsort", "cumprod", "cumsum", "ewise_fma", "nonzero", "shape_of", "sort", "topk", "unique")
)
"""Operators of networks that TVM lowers in a later pass. The others that it doesn't legalize are internal."""
ARITHMETIC = "prim."
"""Operators on single numbers, in shapes."""


def read(data: bytes, dims: dict[str, int]) -> tuple[IRModule, int, dict[str, int]]:
    """The module, its number of parameters, and its operators with Relax's names. Raises `Refused`."""
    saved = files.parsed(data)
    _check_version(saved.metadata.get("tvm_version", ""))
    graph.check(saved)
    _check_operators(saved)
    mod = _loaded(files.checked_json(saved))
    _check_functions(mod, saved)
    operators = _operators(mod)
    mod = _fixed(_without_attributes(mod), dims)
    return mod, _parameters(mod), operators


def _check_version(saved_by: str) -> None:
    here = versions.in_use()["apache-tvm"]
    if saved_by.split(".")[:2] != here.split(".")[:2]:
        raise Refused(
            f"The module was saved by {f'TVM {saved_by}' if saved_by else 'an unknown version of TVM'}, "
            f"but only modules saved by TVM {here} can be read. Save it again with that version, or as ONNX."
        )


def _loaded(text: str) -> IRModule:
    try:
        return tvm.ir.load_json(text)
    except Exception as error:
        check_memory(error)
        reason = last_line(str(error)) or type(error).__name__
        raise Refused(f"TVM can't read this IRModule: {reason}") from error


def _without_attributes(mod: IRModule) -> IRModule:
    def plain(name: str, function: Any) -> Any:
        attributes = tvm.ir.make_node("ir.DictAttrs", global_symbol=name)
        return relax.Function(function.params, function.body, function.ret_ty, function.is_pure, attributes)

    return IRModule({var: plain(str(var.name_hint), function) for var, function in mod.functions.items()})


def _check_operators(saved: files.Saved) -> None:
    """Check every operator in the file, wherever it is: those in shapes aren't found by visiting the functions."""
    names = {str(node.data) for node in saved.nodes if node.type == "ir.Op"}
    if others := [name for name in names if not name.startswith(ARITHMETIC) and not _is_tunable(name)]:
        raise Refused(f"The module calls operators that can't be tuned or aren't allowed: {listed(others)}.")


def tunable_operators() -> list[str]:
    """The operators that a module may have, besides arithmetic in shapes."""
    return [name for name in map(str, Op.list_op_names()) if _is_tunable(name)]


def _is_tunable(name: str) -> bool:
    if name in NOT_LEGALIZED:
        return True
    return name in map(str, Op.list_op_names()) and Op.get(name).get_attr("FLegalize") is not None


def _check_functions(mod: IRModule, saved: files.Saved) -> None:
    """Require a function `main`, and functions at the top level only: inner ones could have attributes, too."""
    names = [str(var.name_hint) for var in mod.functions]
    if "main" not in names:
        raise Refused(f"The module has no function main. It has: {listed(names) or 'none at all'}.")
    if sum(node.type == "relax.expr.Function" for node in saved.nodes) > len(names):
        raise Refused("The module has functions within functions. Save the model before its operators are fused.")


def _operators(mod: IRModule) -> dict[str, int]:
    """Count the operators by name. Raises `Refused` if anything but an operator or a function of the module is called."""
    called = [call for function in mod.functions.values() for call in _calls(function)]
    if others := [f"a {type(call.op).__name__}" for call in called if not isinstance(call.op, (Op, GlobalVar))]:
        raise Refused(f"The module calls what is neither an operator nor one of its functions: {listed(others)}.")
    return dict(Counter(str(call.op.name).removeprefix("relax.") for call in called if isinstance(call.op, Op)))


def _calls(function: Any) -> Iterator[Any]:
    found: list[Any] = []
    relax.analysis.post_order_visit(function, found.append)
    return (expr for expr in found if isinstance(expr, relax.Call))


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
