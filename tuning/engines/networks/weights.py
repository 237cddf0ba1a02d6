"""The weights of built-in networks. No TVM here, so that a NumPy reference can draw the same."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
SEED = 0
EPSILON = 1e-5


@dataclass(frozen=True)
class BatchNorm:
    """A batch norm's four vectors, with a number per channel."""

    scale: Floats
    shift: Floats
    mean: Floats
    variance: Floats

    def factor(self) -> Floats:
        """What each channel is multiplied by."""
        factor: Floats = self.scale / np.sqrt(self.variance + np.float32(EPSILON))
        return factor

    def offset(self) -> Floats:
        """What is then added to each channel."""
        offset: Floats = self.shift - self.mean * self.factor()
        return offset


class Weights:
    """Draws a network's weights in the order of its layers, and counts the trained parameters.

    Weights are normally distributed and scaled by the number of inputs per output (He et al. 2015). A layer's output is
    then about as large as its input, so float16 neither overflows nor vanishes, however deep the network. Drawing takes
    about 10 ns per number, or 0.6 s for the 60 million of ResNet-152.
    """

    def __init__(self) -> None:
        self.parameters = 0
        self._random = np.random.default_rng(SEED)

    def kernel(self, *shape: int) -> Floats:
        """Weights of a layer. The last axis counts the outputs; the others count the inputs of each output."""
        return self._normal(shape, (2 / prod(shape[:-1])) ** 0.5, trained=True)

    def bias(self, n: int) -> Floats:
        """A number around 0 per channel."""
        return self._normal((n,), 0.1, trained=True)

    def batch_norm(self, n: int, gain: float) -> BatchNorm:
        """Nearly the identity times `gain`. Mean and variance are statistics, not trained parameters."""
        scale = gain * (1 + self._normal((n,), 0.1, trained=True))
        shift, mean = gain * self.bias(n), self._normal((n,), 0.1, trained=False)
        return BatchNorm(scale.astype("float32"), shift.astype("float32"), mean, 1 + mean)

    def _normal(self, shape: Any, deviation: float, *, trained: bool) -> Floats:
        self.parameters += prod(shape) if trained else 0
        numbers: Floats = self._random.standard_normal(shape, dtype=np.float32)
        numbers *= np.float32(deviation)
        return numbers
