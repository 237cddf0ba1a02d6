"""The built-in networks as Relax modules: weights bound, batch norms folded, constants folded.

Weights are drawn from a fixed seed, so that two builds of a network are equal and give the same tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tvm import IRModule, relax
from tvm.relax.op import add, matmul, mean
from tvm.relax.op.nn import conv2d, max_pool2d, relu

from .catalog import MatmulOptions, MlpOptions, ResnetOptions, options_of
from .protocol import NetworkSpec

WEIGHTS_SEED = 0


@dataclass(frozen=True)
class Network:
    """A network ready for the legalising pipeline; its only arguments are its inputs."""

    mod: IRModule
    parameters: int
    """Trained numbers of the network as it is published, before batch norms are folded."""


def build(spec: NetworkSpec) -> Network:
    """Build a built-in network. Raises as `catalog.options_of`."""
    options = options_of(spec.name, dict(spec.options))
    if isinstance(options, MlpOptions):
        return _network(_mlp, _tensor("x", options.batch, 784))
    if isinstance(options, MatmulOptions):
        return _network(_matmul, _tensor("a", options.n, options.n), _tensor("b", options.n, options.n))
    assert isinstance(options, ResnetOptions)
    return _network(_resnet18, _tensor("image", options.batch, 224, 224, 3))


class _Layers:
    """Emits layers into one Relax function, drawing and counting their parameters."""

    def __init__(self) -> None:
        self.bb = relax.BlockBuilder()
        self.parameters = 0
        self._random = np.random.default_rng(WEIGHTS_SEED)

    def draw(self, *shape: int, fan_in: int = 1) -> Any:
        """Numbers around 0 that keep a layer's output about as large as its input."""
        self.parameters += prod(shape)
        return self._random.standard_normal(shape, dtype=np.float32) * np.float32((2 / fan_in) ** 0.5)

    def dense(self, x: Any, n_in: int, n_out: int) -> Any:
        """Fully connected; the weight lies as (in, out), the order in which it is multiplied."""
        product = self.bb.emit(matmul(x, relax.const(self.draw(n_in, n_out, fan_in=n_in))))
        return self.bb.emit(add(product, relax.const(self.draw(n_out))))

    def conv(self, x: Any, n_in: int, n_out: int, size: int, stride: int = 1) -> Any:
        """Convolution whose batch norm (scale, shift, running mean and variance) is folded into kernel and bias."""
        kernel = self.draw(size, size, n_in, n_out, fan_in=size * size * n_in)
        scale, shift = 1 + 0.1 * self.draw(n_out), 0.1 * self.draw(n_out)
        mean, variance = 0.1 * self._random.standard_normal(n_out), self._random.uniform(0.5, 1.5, n_out)
        factor = scale / np.sqrt(variance + 1e-5)
        y = conv2d(
            x,
            relax.const((kernel * factor).astype("float32")),
            strides=stride,
            padding=size // 2,
            data_layout="NHWC",
            kernel_layout="HWIO",
        )
        return self.bb.emit(add(self.bb.emit(y), relax.const((shift - mean * factor).astype("float32"))))

    def relu(self, x: Any) -> Any:
        """The larger of x and 0."""
        return self.bb.emit(relu(x))

    def block(self, x: Any, n_in: int, n_out: int, stride: int) -> Any:
        """ResNet's basic block: two 3 × 3 convolutions beside a shortcut."""
        y = self.relu(self.conv(x, n_in, n_out, 3, stride))
        y = self.conv(y, n_out, n_out, 3)
        shortcut = x if n_in == n_out else self.conv(x, n_in, n_out, 1, stride)
        return self.relu(self.bb.emit(add(y, shortcut)))


def _tensor(name: str, *shape: int) -> Any:
    return relax.Var(name, relax.TensorType(shape, "float32"))


def _network(body: Callable[..., Any], *inputs: Any) -> Network:
    layers = _Layers()
    with layers.bb.function("main", list(inputs)):
        with layers.bb.dataflow():
            output = layers.bb.emit_output(body(layers, *inputs))
        layers.bb.emit_func_output(output)
    return Network(layers.bb.get(), layers.parameters)


def _mlp(layers: _Layers, x: Any) -> Any:
    return layers.dense(layers.relu(layers.dense(x, 784, 128)), 128, 10)


def _matmul(_layers: _Layers, a: Any, b: Any) -> Any:
    return matmul(a, b)


def _resnet18(layers: _Layers, image: Any) -> Any:
    x = layers.relu(layers.conv(image, 3, 64, 7, stride=2))
    x = layers.bb.emit(max_pool2d(x, (3, 3), strides=2, padding=1, layout="NHWC"))
    n_in = 64
    for n_out in (64, 128, 256, 512):
        x = layers.block(x, n_in, n_out, stride=1 if n_in == n_out else 2)
        x = layers.block(x, n_out, n_out, stride=1)
        n_in = n_out
    return layers.dense(layers.bb.emit(mean(x, axis=[1, 2])), 512, 1000)
