"""Refuses ONNX models with constant indices outside of their data, by the name of the node: once TVM has imported it, it has none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.shape_inference import infer_shapes

from tuning.engines.wire.errors import Refused

from .onnx_graphs import nodes
from .shapes import known_shapes

BY_AXIS = ("Gather", "GatherElements", "Scatter", "ScatterElements")
BY_COORDINATES = ("GatherND", "ScatterND")


def check(model: ModelProto) -> None:
    """Raises `Refused`."""
    constants = _constants(model)
    indexing = [node for node in nodes(model.graph) if node.op_type in (*BY_AXIS, *BY_COORDINATES)]
    fixed = [node for node in indexing if node.input[1] in constants]
    if not fixed:
        return
    shapes = known_shapes(infer_shapes(model).graph)
    for node in fixed:
        if (shape := shapes.get(node.input[0])) is not None:
            _check(node, numpy_helper.to_array(constants[node.input[1]]), shape)


def _constants(model: ModelProto) -> dict[str, TensorProto]:
    made = [node for node in nodes(model.graph) if node.op_type == "Constant"]
    values = {node.output[0]: attribute.t for node in made for attribute in node.attribute if attribute.name == "value"}
    return values | {tensor.name: tensor for tensor in model.graph.initializer}


def _check(node: NodeProto, indices: NDArray[np.int64], shape: list[int]) -> None:
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if node.op_type in BY_AXIS:
        extents = np.array(shape)[[attributes.get("axis", 0)]]
    else:
        first = attributes.get("batch_dims", 0)
        extents = np.array(shape[first : first + indices.shape[-1]])
    outside = (indices < -extents) | (indices >= extents)
    if outside.any():
        extent = np.broadcast_to(extents, outside.shape)[outside][0]
        name = node.name or f"that computes {node.output[0]}"
        raise Refused(
            f"The model's {node.op_type} node {name} has the index {indices[outside][0]}, where its data has {extent} entries."
        )
