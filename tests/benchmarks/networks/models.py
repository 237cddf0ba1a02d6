"""Networks of today as ONNX files, with weights drawn from a fixed seed: a BERT encoder, a small ViT, a block of a U-Net, and YOLOv3-tiny."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8
LAYER_NORM_EPSILON = 1e-6


def bert(layers: int = 4, hidden: int = 256, heads: int = 4, tokens: int = 128) -> bytes:
    """The encoder of BERT (Devlin et al. 2018), on embedded tokens."""
    graph = Graph()
    x = graph.input("embedded", 1, tokens, hidden)
    for _ in range(layers):
        x = graph.norm(graph.add(x, _attention(graph, x, heads)))
        x = graph.norm(graph.add(x, _feed_forward(graph, x, 4 * hidden)))
    return graph.model(x)


def vit(
    layers: int = 6,
    hidden: int = 192,
    heads: int = 3,
    image: int = 224,
    patch: int = 16,
    *,
    class_token: bool = False,
) -> bytes:
    """A vision transformer (Dosovitskiy et al. 2020) with half of ViT-Tiny's layers, which normalizes before each block.

    The paper's has a class token, so its number of tokens is odd.
    """
    graph = Graph()
    tokens = (image // patch) ** 2
    x = graph.conv(graph.input("image", 1, 3, image, image), hidden, patch, stride=patch)
    x = graph.transpose(graph.reshape(x, 1, hidden, tokens), 0, 2, 1)
    if class_token:
        tokens += 1
        x = graph.node("Concat", [graph.weight(1, 1, hidden), x], (1, tokens, hidden), axis=1)
    x = graph.add(x, graph.weight(1, tokens, hidden))
    for _ in range(layers):
        x = graph.add(x, _attention(graph, graph.norm(x), heads))
        x = graph.add(x, _feed_forward(graph, graph.norm(x), 4 * hidden))
    pooled = graph.node("ReduceMean", [graph.norm(x)], (1, hidden), axes=[1], keepdims=0)
    return graph.model(graph.dense(pooled, 1000))


def unet(channels: int = 32, image: int = 128) -> bytes:
    """One level of a U-Net (Ronneberger et al. 2015): down, the bottom, up again, and joined with what it skipped."""
    graph = Graph()
    skipped = _twice(graph, graph.input("image", 1, channels, image, image), channels)
    raised = graph.up(_twice(graph, graph.pool(skipped), 2 * channels), channels)
    joined = graph.node("Concat", [skipped, raised], (1, 2 * channels, image, image), axis=1)
    return graph.model(graph.conv(_twice(graph, joined, channels), channels, 1))


def yolo(image: int = 416, classes: int = 80) -> bytes:
    """YOLOv3-tiny (Redmon and Farhadi 2018). With 80 classes its two outputs have 255 channels, which no vector divides."""
    graph, boxes = Graph(), 3
    x = graph.input("image", 1, 3, image, image)
    for filters in (16, 32, 64, 128):
        x = graph.pool(_leaky(graph, x, filters, 3))
    finer = _leaky(graph, x, 256, 3)
    x = _leaky(graph, graph.pool(finer), 512, 3)
    x = _leaky(graph, graph.pool(x, stride=1), 1024, 3)
    coarse = _leaky(graph, x, 256, 1)
    of_coarse = graph.conv(_leaky(graph, coarse, 512, 3), boxes * (5 + classes), 1)
    raised = graph.resized(_leaky(graph, coarse, 128, 1))
    _, _, height, width = finer.shape
    joined = graph.node("Concat", [raised, finer], (1, 128 + 256, height, width), axis=1)
    of_fine = graph.conv(_leaky(graph, joined, 256, 3), boxes * (5 + classes), 1)
    return graph.model(of_coarse, of_fine)


MODELS: dict[str, Callable[[], bytes]] = {
    "bert": bert,
    "vit": vit,
    "vit-class-token": partial(vit, class_token=True),
    "unet": unet,
    "yolov3-tiny": yolo,
}


def _attention(graph: Graph, x: Value, heads: int) -> Value:
    """Self-attention with one matrix product for each of query, key and value."""
    _, tokens, hidden = x.shape
    depth = hidden // heads

    def head(transposed: tuple[int, ...]) -> Value:
        return graph.transpose(graph.reshape(graph.dense(x, hidden), 1, tokens, heads, depth), *transposed)

    query, key, value = head((0, 2, 1, 3)), head((0, 2, 3, 1)), head((0, 2, 1, 3))
    scores = graph.node("Mul", [graph.matmul(query, key), graph.constant(depth**-0.5)], (1, heads, tokens, tokens))
    weights = graph.node("Softmax", [scores], scores.shape, axis=-1)
    joined = graph.reshape(graph.transpose(graph.matmul(weights, value), 0, 2, 1, 3), 1, tokens, hidden)
    return graph.dense(joined, hidden)


def _feed_forward(graph: Graph, x: Value, hidden: int) -> Value:
    return graph.dense(_gelu(graph, graph.dense(x, hidden)), x.shape[-1])


def _gelu(graph: Graph, x: Value) -> Value:
    """As exporters write it: x · (1 + erf(x / √2)) / 2."""
    error = graph.node("Erf", [graph.node("Div", [x, graph.constant(2**0.5)], x.shape)], x.shape)
    more = graph.node("Mul", [x, graph.node("Add", [error, graph.constant(1.0)], x.shape)], x.shape)
    return graph.node("Mul", [more, graph.constant(0.5)], x.shape)


def _leaky(graph: Graph, x: Value, filters: int, size: int) -> Value:
    """A convolution that keeps the image's size, with its batch norm folded, and a leaky ReLU."""
    convolved = graph.conv(x, filters, size, padding=size // 2)
    return graph.node("LeakyRelu", [convolved], convolved.shape, alpha=0.1)


def _twice(graph: Graph, x: Value, channels: int) -> Value:
    for _ in range(2):
        convolved = graph.conv(x, channels, 3, padding=1)
        x = graph.node("Relu", [convolved], convolved.shape)
    return x


class Value:
    """A value of the graph."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name = name
        self.shape = shape


class Graph:
    """Emits nodes of one graph, in float32."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._inputs: list[Value] = []
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def input(self, name: str, *shape: int) -> Value:
        self._inputs.append(Value(name, shape))
        return self._inputs[-1]

    def node(self, kind: str, given: list[Value], shape: tuple[int, ...], **attributes: Any) -> Value:
        made = Value(f"{kind.lower()}{len(self._nodes)}", shape)
        self._nodes.append(helper.make_node(kind, [one.name for one in given], [made.name], **attributes))
        return made

    def weight(self, *shape: int, inputs: int = 0) -> Value:
        """Normally distributed, and scaled for so many inputs of each output; around 0.02 without."""
        scale = (1 / inputs) ** 0.5 if inputs else 0.02
        return self._constant(self._random.standard_normal(shape, dtype="float32") * np.float32(scale))

    def constant(self, value: float) -> Value:
        return self._constant(np.array(value, "float32"))

    def add(self, x: Value, y: Value) -> Value:
        return self.node("Add", [x, y], x.shape)

    def matmul(self, x: Value, y: Value) -> Value:
        return self.node("MatMul", [x, y], (*x.shape[:-1], y.shape[-1]))

    def dense(self, x: Value, n_out: int) -> Value:
        n_in = x.shape[-1]
        product = self.matmul(x, self.weight(n_in, n_out, inputs=n_in))
        return self.node("Add", [product, self.weight(n_out)], product.shape)

    def norm(self, x: Value) -> Value:
        """Layer normalization over the last axis."""
        scale, bias = self._constant(np.ones(x.shape[-1], "float32")), self.weight(x.shape[-1])
        return self.node("LayerNormalization", [x, scale, bias], x.shape, axis=-1, epsilon=LAYER_NORM_EPSILON)

    def reshape(self, x: Value, *shape: int) -> Value:
        return self.node("Reshape", [x, self._constant(np.array(shape, "int64"))], shape)

    def transpose(self, x: Value, *axes: int) -> Value:
        return self.node("Transpose", [x], tuple(x.shape[axis] for axis in axes), perm=list(axes))

    def conv(self, x: Value, n_out: int, size: int, stride: int = 1, padding: int = 0) -> Value:
        _, n_in, *places = x.shape
        given = [x, self.weight(n_out, n_in, size, size, inputs=n_in * size**2), self.weight(n_out)]
        shape = (1, n_out, *((place + 2 * padding - size) // stride + 1 for place in places))
        return self.node("Conv", given, shape, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[padding] * 4)

    def pool(self, x: Value, stride: int = 2) -> Value:
        """The maxima of 2 × 2; with a stride of 1 the image keeps its size."""
        shape = (*x.shape[:2], *(place // stride for place in x.shape[2:]))
        pads = [0, 0, 2 - stride, 2 - stride]
        return self.node("MaxPool", [x], shape, kernel_shape=[2, 2], strides=[stride] * 2, pads=pads)

    def resized(self, x: Value) -> Value:
        """Twice the height and width, by repeating what is nearest."""
        shape = (*x.shape[:2], *(2 * place for place in x.shape[2:]))
        none, scales = Value("", ()), self._constant(np.array([1, 1, 2, 2], "float32"))
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.node("Resize", [x, none, scales], shape, **how)

    def up(self, x: Value, n_out: int) -> Value:
        """Twice the height and width, by a transposed convolution."""
        _, n_in, height, width = x.shape
        kernel = self.weight(n_in, n_out, 2, 2, inputs=n_in)
        shape = (1, n_out, 2 * height, 2 * width)
        return self.node("ConvTranspose", [x, kernel], shape, kernel_shape=[2, 2], strides=[2, 2])

    def model(self, *outputs: Value) -> bytes:
        """The serialized model."""
        given, made = ([_info(one) for one in values] for values in (self._inputs, outputs))
        graph = helper.make_graph(self._nodes, "main", given, made, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())

    def _constant(self, values: NDArray[Any]) -> Value:
        made = Value(f"constant{len(self._constants)}", values.shape)
        self._constants.append(numpy_helper.from_array(values, made.name))
        return made


def _info(value: Value) -> Any:
    return helper.make_tensor_value_info(value.name, TensorProto.FLOAT, value.shape)
