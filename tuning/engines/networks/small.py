"""Networks that tune in a minute."""

from __future__ import annotations

from typing import Any


def mlp(layers: Any, x: Any) -> Any:
    """Two dense layers with a ReLU in between: (batch, 784) to (batch, 10)."""
    return layers.dense(layers.relu(layers.dense(x, 128)), 10)


def matmul(layers: Any, a: Any, b: Any) -> Any:
    """The product of two n × n matrices."""
    return layers.matmul(a, b)


def conv2d(layers: Any, image: Any) -> Any:
    """A 3 × 3 convolution with a bias, which keeps the image's size and channels."""
    return layers.conv_biased(image, layers.channels(image), 3)
