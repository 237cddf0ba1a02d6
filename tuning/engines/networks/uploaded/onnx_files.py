"""Reads ONNX files as Relax modules."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

from google.protobuf.message import DecodeError, Message
from onnx import GraphProto, ModelProto, NodeProto, TensorProto
from onnx.checker import check_model
from onnx.inliner import inline_local_functions
from tvm import IRModule
from tvm.relax.frontend.onnx import from_onnx, onnx_frontend

from tuning.engines.wire.errors import Refused, last_line

from . import onnx_indices, recurrent, shapes
from .checks import check_dims, check_memory, listed
from .onnx_graphs import STANDARD, nodes

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
STATISTICS = slice(3, 5)
"""Inputs of BatchNormalization that aren't trained: mean and variance."""


def read(data: bytes, dims: dict[str, int]) -> tuple[IRModule, int, dict[str, int]]:
    """The module, its number of parameters, and its operators with ONNX's names. Raises `Refused`."""
    model = _parsed(data)
    _check_self_contained(model)
    if not all(isinstance(name, str) for name in _names(model.graph)):
        raise Refused("The file is not a valid ONNX model: some names aren't UTF-8 text.")
    if model.functions:
        model = inline_local_functions(model)
    used = list(nodes(model.graph))
    _check_operators(used)
    parameters, operators = _parameters(model.graph, used), dict(Counter(node.op_type for node in used))
    _fix(model.graph, dims)
    return _imported(model), parameters, operators


def _parsed(data: bytes) -> ModelProto:
    if data.startswith((b"PK", b"\x1f\x8b")):
        raise Refused("The file is a compressed archive. Unpack it and upload the model inside.")
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise Refused("The file is not an ONNX model, or it is incomplete. Was it cut off?") from error
    if not model.ir_version or not model.graph.node:
        raise Refused("The file is not an ONNX model, or the model has no operators.")
    return model


def _check_self_contained(model: ModelProto) -> None:
    """Require that all tensors are in the file itself. ONNX's tools would read those of other files, whichever they name."""
    outside = [tensor for tensor in _tensors(model) if _is_external(tensor)]
    if files := {entry.value for tensor in outside for entry in tensor.external_data if entry.key == "location"}:
        raise Refused(
            f"The model's weights are in other files ({listed(files, 5)}), which can't be uploaded. Save it as one file: "
            'onnx.save(onnx.load("model.onnx"), "whole.onnx").'
        )
    if outside:
        raise Refused(
            f"The model's weights are in other files, which it doesn't name: {listed(t.name for t in outside)}."
        )


def _is_external(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL or len(tensor.external_data) > 0


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All tensors, wherever ONNX allows one: in graphs, functions, attributes, sparse tensors, or what is there for training."""
    found: list[Message] = [model]
    while found:
        message = found.pop()
        if isinstance(message, TensorProto):
            yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                found += [value] if isinstance(value, Message) else value


def _names(graph: GraphProto) -> Iterator[Any]:
    yield from (one.name for one in (*graph.input, *graph.output, *graph.initializer))
    for node in nodes(graph):
        yield from (node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def known_operators() -> set[str]:
    """The operators that a file may have: those that TVM's importer converts, and those that are lowered before."""
    imported = {*onnx_frontend._get_convert_map(), "If", "Constant"}  # noqa: SLF001  there is no public list
    return imported | recurrent.OPERATORS


def _check_operators(used: list[NodeProto]) -> None:
    known = known_operators()
    unknown = [node for node in used if node.domain not in STANDARD or node.op_type not in known]
    if unknown:
        names = (f"{node.domain}.{node.op_type}" if node.domain not in STANDARD else node.op_type for node in unknown)
        raise Refused(f"TVM's ONNX importer doesn't support these operators: {listed(names)}.")


def _fix(graph: GraphProto, dims: dict[str, int]) -> None:
    """Set the open dimensions of the inputs, which are named as in the file, or `INPUT.AXIS` if they have no name there."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [one for one in graph.input if one.name not in constants]
    for one in inputs:
        if not one.type.HasField("tensor_type") or not one.type.tensor_type.HasField("shape"):
            raise Refused(f"The model's input {one.name} isn't a tensor of known rank.")
    found = [(_dim_name(one, axis), extent) for one in inputs for axis, extent in _open(one)]
    check_dims(dims, (name for name, _ in found))
    for name, extent in found:
        extent.dim_value = dims[name]


def _open(one: Any) -> list[tuple[int, Any]]:
    return [(axis, extent) for axis, extent in enumerate(one.type.tensor_type.shape.dim) if extent.dim_value <= 0]


def _dim_name(one: Any, axis: int) -> str:
    return one.type.tensor_type.shape.dim[axis].dim_param or f"{one.name}.{axis}"


def _imported(model: ModelProto) -> IRModule:
    """Run TVM's importer, which prints the operator that it failed at."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shapes.fold(model)
            onnx_indices.check(model)
            recurrent.lower(model)
            return from_onnx(model, keep_params_in_input=False)
    except Refused:
        raise
    except Exception as error:
        check_memory(error)
        at = re.search(r"Error converting operator (\w+)", printed.getvalue())
        where = f" at the operator {at[1]}" if at else ""
        reason = last_line(str(error)) or type(error).__name__
        verdict = _checkers_verdict(model)
        raise Refused(f"TVM's ONNX importer failed{where}: {type(error).__name__}: {reason}{verdict}") from error


def _checkers_verdict(model: ModelProto) -> str:
    """What ONNX's own checker says, in case the file is invalid."""
    try:
        check_model(model)
    except Exception as error:  # noqa: BLE001  it raises various errors, and the file is refused anyway
        return f" (ONNX's own checker says: {str(error).strip().partition(chr(10))[0][:300]})"
    return ""


def _parameters(graph: GraphProto, used: list[NodeProto]) -> int:
    """Of a quantized model those of the model that it was made from: its integers, without scales and zero points."""
    statistics = {name for node in used if node.op_type == "BatchNormalization" for name in node.input[STATISTICS]}
    quantizing = [node for node in used if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    beside = statistics | {name for node in quantizing for name in node.input[1:]}
    integers = {node.input[0] for node in quantizing}
    tensors = [tensor for tensor in graph.initializer if tensor.name not in beside]
    return sum(prod(tensor.dims) for tensor in tensors if tensor.data_type in FLOATS or tensor.name in integers)
