"""Reads uploaded models, which can't be trusted, as Relax modules: checks them and prepares them for extraction.

Only separate processes read such files: `tuning.engines.oneshot.inspecting`, with resource limits, when a file is
uploaded, and later the engine, with the same checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm import IRModule, relax

from tuning.engines.networks.quantized.layouts import channels_last
from tuning.engines.networks.quantized.rewriting import Report, in_integers
from tuning.engines.targets.dot_products import Instruction
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import ModelFile

from . import modules, onnx_files
from .constants import folded
from .indices import bounded


@dataclass(frozen=True)
class UploadedModel:
    """A model ready to be legalized. Its only arguments are its inputs."""

    mod: IRModule
    parameters: int
    """Trained parameters: floating-point constants, without the running statistics of batch norms."""
    operators: dict[str, int]
    """How often each operator occurs, by its name in the file."""
    quantized: Report


def build(file: ModelFile, instruction: Instruction | None = None) -> UploadedModel:
    """Read the file with its open dimensions set; with an instruction, what is quantized is computed in integers by it.

    Raises `Refused`, which names the dimensions that have no value.
    """
    try:
        data = Path(file.path).read_bytes()
    except OSError as error:
        raise Refused(f"The model's file can't be read: {error.strerror}.") from error
    if not data:
        raise Refused("The file is empty.")
    read = onnx_files.read if file.format == "onnx" else modules.read
    mod, parameters, operators = read(data, dict(file.dims))
    _check_static(mod)
    mod, quantized = in_integers(mod, instruction)  # Before quantized weights are folded to floats.
    mod = _prepared(bounded(mod))
    return UploadedModel(channels_last(mod) if quantized.integers else mod, parameters, operators, quantized)


def _prepared(mod: IRModule) -> IRModule:
    """Fold batch norms and constants, because what doesn't depend on an input isn't a task."""
    for step in (relax.transform.FoldBatchnormToConv2D(), relax.transform.DecomposeOpsForInference()):
        mod = step(mod)
    return folded(mod)


def _check_static(mod: IRModule) -> None:
    """Require that inputs are tensors and that all shapes are fixed, since only those can be measured."""
    if others := [f"{one.name} is a {type(one.ty).__name__}" for one in mod["main"].params if not _is_tensor(one)]:
        raise Refused(f"The model's inputs must be tensors, but {', '.join(others)}.")
    dynamic = list(dict.fromkeys(_dynamic(mod["main"])))
    if dynamic:
        named = ", ".join(dynamic[:12]) + (f" and {len(dynamic) - 12} more" if len(dynamic) > 12 else "")
        raise Refused(f"The model can't be tuned because some shapes depend on the values of its inputs: {named}.")


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
    """The name of the input, or of the operator that computes the tensor."""
    return str(getattr(tensor.op if isinstance(tensor, relax.Call) else tensor, "name", "a value")).removeprefix(
        "relax."
    )
