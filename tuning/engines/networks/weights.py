"""The numbers that networks are filled with. No TVM here, so that a reference in NumPy can draw the same."""

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
    """A batch norm's four vectors, one number a channel."""

    scale: Floats
    shift: Floats
    mean: Floats
    variance: Floats

    def factor(self) -> Floats:
        """What a channel is multiplied by."""
        factor: Floats = self.scale / np.sqrt(self.variance + np.float32(EPSILON))
        return factor

    def offset(self) -> Floats:
        """What is added to a channel then."""
        offset: Floats = self.shift - self.mean * self.factor()
        return offset


class Weights:
    """Draws a network's weights in the order of its layers, and counts those that training sets.

    Everything is normally distributed and scaled by the inputs of one output (He et al. 2015), so that a layer's output is
    about as large as its input, however deep the network: float16 neither overflows nor vanishes. Drawing takes some
    10 ns a number, 0.6 s for the 60 million of ResNet-152.
    """

    def __init__(self) -> None:
        self.parameters = 0
        self._random = np.random.default_rng(SEED)

    def kernel(self, *shape: int) -> Floats:
        """Weights of a layer: the last axis counts the outputs, all others the inputs of each."""
        return self._normal(shape, (2 / prod(shape[:-1])) ** 0.5, trained=True)

    def bias(self, n: int) -> Floats:
        """One number around 0 a channel."""
        return self._normal((n,), 0.1, trained=True)

    def batch_norm(self, n: int, gain: float) -> BatchNorm:
        """Nearly the identity times `gain`; mean and variance are statistics, which training doesn't set."""
        scale = gain * (1 + self._normal((n,), 0.1, trained=True))
        shift, mean = gain * self.bias(n), self._normal((n,), 0.1, trained=False)
        return BatchNorm(scale.astype("float32"), shift.astype("float32"), mean, 1 + mean)

    def _normal(self, shape: Any, deviation: float, *, trained: bool) -> Floats:
        self.parameters += prod(shape) if trained else 0
        numbers: Floats = self._random.standard_normal(shape, dtype=np.float32)
        numbers *= np.float32(deviation)
        return numbers
