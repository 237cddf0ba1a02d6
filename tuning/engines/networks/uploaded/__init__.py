"""One's own model as a Relax module: read from a file that nobody vouches for, checked whole, made ready for extraction.

Only processes of their own read such files: `tuning.engines.oneshot.inspecting` under limits when a file comes in, and the engine
later, with the same checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm import IRModule, relax

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import ModelFile

from . import modules, onnx_files


@dataclass(frozen=True)
class Uploaded:
    """A model ready for the legalising pipeline; its only arguments are its inputs."""

    mod: IRModule
    parameters: int
    """Numbers that training sets: floating-point constants, without the running statistics of batch norms."""
    operators: dict[str, int]
    """How often each operator occurs, by the names that the file has for them."""


def build(file: ModelFile) -> Uploaded:
    """Read the file, with its open dimensions as given. Raises `Refused` in words, which name the dimensions left open."""
    try:
        data = Path(file.path).read_bytes()
    except OSError as error:
        raise Refused(f"The model's file can't be read: {error.strerror}.") from error
    if not data:
        raise Refused("The file is empty.")
    read = onnx_files.read if file.format == "onnx" else modules.read
    mod, parameters, operators = read(data, dict(file.dims))
    _check_static(mod)
    return Uploaded(_prepared(mod), parameters, operators)


def _prepared(mod: IRModule) -> IRModule:
    """Batch norms folded into convolutions, constants folded: what needs no input is no task."""
    passes = [
        relax.transform.FoldBatchnormToConv2D(),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.FoldConstant(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(["main"]),
    ]
    for step in passes:
        mod = step(mod)
    return mod


def _check_static(mod: IRModule) -> None:
    """Inputs are tensors, and every tensor has a shape of numbers: no schedule can be measured for one of letters."""
    if strange := [f"{one.name} is a {type(one.ty).__name__}" for one in mod["main"].params if not _is_tensor(one)]:
        raise Refused(f"Its inputs must be tensors: {', '.join(strange)}.")
    dynamic = list(dict.fromkeys(_dynamic(mod["main"])))
    if dynamic:
        named = ", ".join(dynamic[:12]) + (f" and {len(dynamic) - 12} more" if len(dynamic) > 12 else "")
        raise Refused(f"Some shapes depend on the input's values, which can't be tuned: {named}.")


def _is_tensor(variable: Any) -> bool:
    return isinstance(variable.ty, relax.TensorType)


def _dynamic(main: Any) -> Iterator[str]:
    tensors: list[Any] = list(main.params)
    relax.analysis.post_order_visit(
        main.body, lambda expr: tensors.append(expr) if isinstance(expr, relax.Call) else None
    )
    for tensor in tensors:
        if not all(map(_static, _parts(tensor.ty))):
            yield f"{_name(tensor)} of {tensor.ty}".replace("\n", " ")


def _parts(ty: Any) -> list[Any]:
    return [part for field in ty.fields for part in _parts(field)] if isinstance(ty, relax.TupleType) else [ty]


def _static(ty: Any) -> bool:
    if not isinstance(ty, relax.TensorType):
        return True
    return ty.shape is not None and all(hasattr(extent, "value") for extent in getattr(ty.shape, "values", [None]))


def _name(tensor: Any) -> str:
    """An input's, or that of the operator which made it."""
    return str(getattr(tensor.op if isinstance(tensor, relax.Call) else tensor, "name", "a value")).removeprefix(
        "relax."
    )
