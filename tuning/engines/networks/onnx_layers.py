"""The layers that networks are built from, in ONNX for other runtimes: channels first, with batch norms folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .weights import Floats, Weights

OPSET, IR_VERSION = 17, 8
"""Old enough for any runtime of recent years."""


class Tensor(NamedTuple):
    """A value of the graph. Its second axis is the channels."""

    name: str
    shape: tuple[int, ...]


class Window(NamedTuple):
    """The window of a convolution or pool, with a number for each spatial axis."""

    size: list[int]
    stride: list[int]
    padding: list[int]


class OnnxLayers:
    """Emits layers as nodes of one graph, in float32."""

    def __init__(self) -> None:
        self.weights = Weights()
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []

    def channels(self, x: Tensor) -> int:
        return x.shape[1]

    def conv(self, x: Tensor, n_out: int, size: Any, stride: Any = 1, padding: Any = None) -> Tensor:
        """Convolution with its batch norm folded into kernel and bias."""
        return self._normed(x, n_out, _window(x, size, stride, padding))

    def conv_scaled(self, x: Tensor, n_out: int, size: Any, gain: float) -> Tensor:
        """As `conv` with stride 1, for a branch that is added to another. Its batch norm scales by `gain`."""
        return self._normed(x, n_out, _window(x, size), gain=gain)

    def depthwise(self, x: Tensor, size: Any, stride: Any = 1) -> Tensor:
        """Depthwise convolution with its batch norm folded."""
        return self._normed(x, x.shape[1], _window(x, size, stride), groups=x.shape[1])

    def conv_biased(self, x: Tensor, n_out: int, size: Any, stride: Any = 1, padding: Any = None) -> Tensor:
        """Convolution with a bias instead of a batch norm."""
        window = _window(x, size, stride, padding)
        kernel = self.weights.kernel(*window.size, x.shape[1], n_out)
        return self._conv(x, kernel, self.weights.bias(n_out), window)

    def dense(self, x: Tensor, n_out: int) -> Tensor:
        kernel, bias = self.weights.kernel(x.shape[-1], n_out), self.weights.bias(n_out)
        return self._node("Gemm", [x.name, self._const(kernel), self._const(bias)], (x.shape[0], n_out))

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        return self._node("MatMul", [a.name, b.name], (*a.shape[:-1], b.shape[-1]))

    def relu(self, x: Tensor) -> Tensor:
        return self._node("Relu", [x.name], x.shape)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self._node("Add", [x.name, y.name], x.shape)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate along the channels."""
        channels = sum(part.shape[1] for part in parts)
        shape = (parts[0].shape[0], channels, *parts[0].shape[2:])
        return self._node("Concat", [part.name for part in parts], shape, axis=1)

    def max_pool(self, x: Tensor, size: int, stride: int, padding: int = 0) -> Tensor:
        return self._windowed("MaxPool", x, [], x.shape[1], _window(x, size, stride, padding))

    def avg_pool(self, x: Tensor, size: int) -> Tensor:
        """The mean around each pixel, counting zeros beyond the border."""
        return self._windowed("AveragePool", x, [], x.shape[1], _window(x, size), count_include_pad=1)

    def global_mean(self, x: Tensor) -> Tensor:
        """The mean of each channel, as (batch, channels)."""
        axes = list(range(2, len(x.shape)))
        return self._node("ReduceMean", [x.name], x.shape[:2], axes=axes, keepdims=0)

    def model(self, inputs: Sequence[Tensor], output: Tensor) -> bytes:
        """The serialized model."""
        graph = helper.make_graph(
            self._nodes, "main", [_info(each) for each in inputs], [_info(output)], self._initializers
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(made)
        return bytes(made.SerializeToString())

    def _normed(self, x: Tensor, n_out: int, window: Window, groups: int = 1, gain: float = 1.0) -> Tensor:
        kernel = self.weights.kernel(*window.size, x.shape[1] // groups, n_out)
        norm = self.weights.batch_norm(n_out, gain)
        return self._conv(x, kernel * norm.factor(), norm.offset(), window, groups)

    def _conv(self, x: Tensor, kernel: Floats, bias: Floats, window: Window, groups: int = 1) -> Tensor:
        given = [self._const(np.moveaxis(kernel, (-1, -2), (0, 1))), self._const(bias)]
        return self._windowed("Conv", x, given, kernel.shape[-1], window, group=groups)

    def _windowed(self, kind: str, x: Tensor, given: list[str], n_out: int, window: Window, **more: int) -> Tensor:
        along = zip(x.shape[2:], *window, strict=True)
        places = [(extent + 2 * pad - size) // step + 1 for extent, size, step, pad in along]
        how = {"kernel_shape": window.size, "strides": window.stride, "pads": window.padding * 2}
        return self._node(kind, [x.name, *given], (x.shape[0], n_out, *places), **how, **more)

    def _node(self, kind: str, given: list[str], shape: tuple[int, ...], **attributes: Any) -> Tensor:
        name = f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, given, [name], **attributes))
        return Tensor(name, shape)

    def _const(self, numbers: Floats) -> str:
        name = f"constant{len(self._initializers)}"
        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(numbers, "float32"), name))
        return name


def _window(x: Tensor, size: Any, stride: Any = 1, padding: Any = None) -> Window:
    """By default padded to keep the extents."""
    size, stride, padding = (
        [given] * (len(x.shape) - 2) if isinstance(given, int) else given for given in (size, stride, padding)
    )
    return Window(list(size), list(stride), [extent // 2 for extent in size] if padding is None else list(padding))


def _info(tensor: Tensor) -> Any:
    return helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.shape)
