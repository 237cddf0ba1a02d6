"""Folds arithmetic on shapes in ONNX graphs: exporters write it as operators, but TVM's importer needs numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_shapes

FOLDED = frozenset(
    [
        "Add",
        "Cast",
        "Concat",
        "Constant",
        "Div",
        "Equal",
        "Gather",
        "Identity",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "ReduceProd",
        "Reshape",
        "Slice",
        "Squeeze",
        "Sub",
        "Unsqueeze",
        "Where",
    ]
)
MAX_ELEMENTS = 4096
"""A value with more elements isn't taken for a shape."""
ROUNDS = 32
"""Shapes that were folded in one round may let others be inferred in the next."""
Values = dict[str, NDArray[Any]]


def fold(model: ModelProto) -> None:
    """Replace nodes that compute with known shapes by their results."""
    for _ in range(ROUNDS):
        if not any(node.op_type == "Shape" for node in model.graph.node) or not _folded(model):
            return


def _folded(model: ModelProto) -> bool:
    """Fold once, and return whether anything was replaced."""
    shapes = known_shapes(infer_shapes(model, data_prop=True).graph)
    values = _values(model.graph)
    kept, before = [], len(model.graph.node)
    for node in model.graph.node:
        value = _value(node, shapes, values, model)
        if value is None or value.size > MAX_ELEMENTS:
            kept.append(node)
            continue
        values[node.output[0]] = value
        model.graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return len(kept) < before


def known_shapes(graph: GraphProto) -> dict[str, list[int]]:
    """The shapes of tensors that are fully known."""
    infos = (*graph.input, *graph.value_info, *graph.output)
    known = {info.name: info.type.tensor_type.shape for info in infos if info.type.tensor_type.HasField("shape")}
    found = {name: [extent.dim_value for extent in shape.dim] for name, shape in known.items()}
    found |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    return {name: shape for name, shape in found.items() if all(shape)}


def _values(graph: GraphProto) -> Values:
    small = [tensor for tensor in graph.initializer if tensor.data_type in (TensorProto.INT64, TensorProto.INT32)]
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in small
        if np.prod(tensor.dims, dtype=float) <= MAX_ELEMENTS
    }


def _value(node: NodeProto, shapes: dict[str, list[int]], values: Values, model: ModelProto) -> NDArray[Any] | None:
    """The node's output, if it is known."""
    if node.op_type == "Shape" and (shape := shapes.get(node.input[0])) is not None:
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        return np.array(shape[bounds.get("start", 0) : bounds.get("end")], "int64")
    inputs = [name for name in node.input if name]
    if node.op_type not in FOLDED or len(node.output) != 1 or not all(name in values for name in inputs):
        return None
    return _computed(node, {name: values[name] for name in inputs}, model)


def _computed(node: NodeProto, inputs: Values, model: ModelProto) -> NDArray[Any] | None:
    """Compute the node with ONNX's reference implementation; None if the result isn't integers or booleans."""
    tensors = [numpy_helper.from_array(value, name) for name, value in inputs.items()]
    outputs = [helper.make_empty_tensor_value_info(node.output[0])]
    graph = helper.make_graph([node], "one", [], outputs, tensors)
    one = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    (value,) = ReferenceEvaluator(one).run(None, {})
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "ib" else None
