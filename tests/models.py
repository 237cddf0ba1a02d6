"""Small models to upload: ONNX files made with `onnx.helper`, and Relax modules in TVM's JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 17
Extent = int | str | None


def onnx_model(
    nodes: list[Any],
    inputs: dict[str, list[Extent] | None],
    outputs: dict[str, list[Extent]],
    **constants: NDArray[Any],
) -> ModelProto:
    """A model with float inputs and outputs of these shapes; a name stands for a dynamic extent."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def convnet(batch: Extent = 1, channels: int = 8, size: int = 16) -> ModelProto:
    """Convolution, batch norm, ReLU, pooling and dense: from 3 × size × size to 10 numbers."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> NDArray[np.float32]:
        return random.standard_normal(shape).astype("float32")

    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "weight", "bias"], ["y"]),
    ]
    return onnx_model(
        nodes,
        {"x": [batch, 3, size, size]},
        {"y": [batch, 10]},
        kernel=normal(channels, 3, 3, 3),
        scale=1 + normal(channels) / 10,
        shift=normal(channels),
        mean=normal(channels),
        variance=1 + normal(channels) ** 2,
        weight=normal(channels, 10),
        bias=normal(10),
    )


CONVNET_PARAMETERS = 8 * 27 + 2 * 8 + 80 + 10


def dense(rows: Extent = 4) -> ModelProto:
    """One matrix product: the smallest model to tune."""
    weight = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    return onnx_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [rows, 16]}, {"y": [rows, 8]}, w=weight)


def external(folder: Path) -> bytes:
    """A model whose weights are in a second file."""
    path = folder / "model.onnx"
    onnx.save_model(
        convnet(), path, save_as_external_data=True, location="weights.bin", size_threshold=0, convert_attribute=True
    )
    return path.read_bytes()


def relax_json(model: ModelProto | None = None) -> bytes:
    """A Relax module as TVM's JSON."""
    import tvm
    from tvm.relax.frontend.onnx import from_onnx

    text: str = tvm.ir.save_json(from_onnx(model or convnet()))
    return text.encode()


def constant() -> ModelProto:
    """A model whose output doesn't depend on its input."""
    value = numpy_helper.from_array(np.ones(4, "float32"), "value")
    return onnx_model([helper.make_node("Constant", [], ["y"], value=value)], {"x": [4]}, {"y": [4]})


def bomb() -> ModelProto:
    """A file of a hundred bytes whose output takes 4 TiB."""
    shape = np.array([1 << 20, 1 << 20], "int64")
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["big"]), helper.make_node("Add", ["x", "big"], ["y"])]
    return onnx_model(nodes, {"x": [1]}, {"y": [1 << 20, 1 << 20]}, shape=shape)
