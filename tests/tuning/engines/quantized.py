"""Makes small ONNX models as quantizers write them: QuantizeLinear and DequantizeLinear around operators of floats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tuning.engines.wire.protocol import ModelFile, NetworkSpec


class Qdq:
    """A model that grows by one operator at a time. Scales are such that values don't saturate often, zero points aren't 0."""

    def __init__(self, shape: Sequence[int], data: str = "uint8", seed: int = 0) -> None:
        self.shape = list(shape)
        self.data = data
        self.random = np.random.default_rng(seed)
        self.value = "x"
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def const(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def quantized(self, scale: float = 0.03, zero_point: int | None = None) -> float:
        """The value, quantized and dequantized."""
        zero = zero_point if zero_point is not None else {"uint8": 120, "int8": -9}[self.data]
        given = (self.const(np.float32(scale)), self.const(np.array(zero, self.data)))
        self.value = self.node("DequantizeLinear", self.node("QuantizeLinear", self.value, *given), *given)
        return scale

    def weights(
        self, shape: Sequence[int], axis: int, dtype: str = "int8", *, by_channel: bool = True
    ) -> tuple[str, Any]:
        """Dequantized weights with a scale for each output, or one for all; and the scale."""
        middle = {"int8": 0, "uint8": 128}[dtype]
        integers = (self.random.integers(-127, 128, shape) + middle).astype(dtype)
        count = shape[axis] if by_channel else 1
        scale = (0.002 + 0.001 * self.random.random(count)).astype("float32")
        zero = np.full(count, middle, dtype)
        if not by_channel:
            scale, zero = scale[0], zero[0]
        attributes = {"axis": axis} if by_channel else {}
        return self.node(
            "DequantizeLinear", self.const(integers), self.const(scale), self.const(zero), **attributes
        ), scale

    def bias(self, outputs: int, data_scale: float, weights_scale: Any) -> str:
        """Dequantized integers of 32 bits, whose scale is that of the product."""
        scale = np.broadcast_to(np.float32(data_scale) * weights_scale, outputs).astype("float32")
        integers = self.random.integers(-2000, 2000, outputs).astype("int32")
        zero = self.const(np.zeros(outputs, "int32"))
        return self.node("DequantizeLinear", self.const(integers), self.const(scale), zero, axis=0)

    def gemm(self, outputs: int, dtype: str = "int8", *, by_channel: bool = True, transposed: bool = False) -> None:
        data_scale = self.quantized()
        shape = (outputs, self.shape[-1]) if transposed else (self.shape[-1], outputs)
        weights, scale = self.weights(shape, 0 if transposed else 1, dtype, by_channel=by_channel)
        bias = self.bias(outputs, data_scale, scale)
        self.value = self.node("Gemm", self.value, weights, bias, transB=int(transposed))
        self.shape[-1] = outputs

    def matmul(self, outputs: int, dtype: str = "int8", *, by_channel: bool = True) -> None:
        self.quantized()
        weights, _ = self.weights((self.shape[-1], outputs), 1, dtype, by_channel=by_channel)
        self.value = self.node("MatMul", self.value, weights)
        self.shape[-1] = outputs

    def conv(
        self, outputs: int, kernel: int = 3, *, by_channel: bool = True, group: int = 1, **attributes: Any
    ) -> None:
        data_scale = self.quantized()
        shape = (outputs, self.shape[1] // group, kernel, kernel)
        weights, scale = self.weights(shape, 0, by_channel=by_channel)
        bias = self.bias(outputs, data_scale, scale)
        self.value = self.node("Conv", self.value, weights, bias, group=group, kernel_shape=[kernel] * 2, **attributes)
        self.shape[1] = outputs

    def apply(self, kind: str, **attributes: Any) -> None:
        self.value = self.node(kind, self.value, **attributes)

    def saved(self, path: Path, input_shape: Sequence[int]) -> NetworkSpec:
        """The model, whose last value is quantized, too, as a network."""
        self.quantized(0.05)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(input_shape))
        y = helper.make_tensor_value_info(self.value, TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, "quantized", [x], [y], self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path.write_bytes(model.SerializeToString())
        return NetworkSpec("quantized", {}, ModelFile("onnx", str(path)))


def in_floats(quantized: NetworkSpec, path: Path) -> NetworkSpec:
    """The model without its rounding, as it was before a quantizer had it: weights are constant floats."""
    assert quantized.file
    model = onnx.load(quantized.file.path)
    made_by = {name: node for node in model.graph.node for name in node.output}
    known = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    renamed: dict[str, str] = {}
    nodes, weights = [], []
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            source = node.input[0]
            if source in known:
                weights.append(numpy_helper.from_array(_dequantized(node, known), node.output[0]))
            else:
                given = made_by[source].input[0]
                renamed[node.output[0]] = renamed.get(given, given)
        elif node.op_type != "QuantizeLinear":
            node.input[:] = [renamed.get(name, name) for name in node.input]
            nodes.append(node)
    ends = [helper.make_tensor_value_info(renamed[one.name], TensorProto.FLOAT, None) for one in model.graph.output]
    graph = helper.make_graph(nodes, "floats", list(model.graph.input), ends, weights)
    made: ModelProto = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    path.write_bytes(made.SerializeToString())
    return NetworkSpec("floats", {}, ModelFile("onnx", str(path)))


def _dequantized(node: Any, known: dict[str, Any]) -> Any:
    integers, scale, zero = (known[name].astype("float64") for name in node.input)
    axis = {one.name: one.i for one in node.attribute}.get("axis", 1)
    if scale.ndim and scale.size > 1:
        shape = [-1 if nth == axis % integers.ndim else 1 for nth in range(integers.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return ((integers - zero) * scale).astype("float32")
