"""The layers that networks are built from, in NumPy and as in the papers: batch norms unfolded, channels last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tuning.engines.networks.weights import EPSILON, Floats, Weights


class Reference:
    """Computes in float32 what `networks.layers.Layers` emits, with the same weights."""

    def __init__(self) -> None:
        self.weights = Weights()

    def channels(self, x: Floats) -> int:
        return x.shape[-1]

    def conv(self, x: Floats, n_out: int, size: Any, stride: Any = 1, padding: Any = None) -> Floats:
        return self._batch_norm(self._conv(x, n_out, size, stride, padding), 1)

    def conv_scaled(self, x: Floats, n_out: int, size: int, gain: float) -> Floats:
        return self._batch_norm(self._conv(x, n_out, size), gain)

    def depthwise(self, x: Floats, size: int, stride: int = 1) -> Floats:
        kernel = self.weights.kernel(*_each(size, x.ndim - 2), 1, x.shape[-1])
        return self._batch_norm(
            np.einsum("nhwcij,ijc->nhwc", _windows(x, (size, size), stride, None), kernel[..., 0, :]), 1
        )

    def conv_biased(self, x: Floats, n_out: int, size: int, stride: int = 1, padding: int | None = None) -> Floats:
        y = self._conv(x, n_out, size, stride, padding)
        return y + self.weights.bias(n_out)

    def dense(self, x: Floats, n_out: int) -> Floats:
        kernel = self.weights.kernel(x.shape[-1], n_out)
        return x @ kernel + self.weights.bias(n_out)

    def matmul(self, a: Floats, b: Floats) -> Floats:
        return a @ b

    def relu(self, x: Floats) -> Floats:
        positive: Floats = np.maximum(x, 0)
        return positive

    def add(self, x: Floats, y: Floats) -> Floats:
        assert x.shape == y.shape
        return x + y

    def concat(self, parts: Sequence[Floats]) -> Floats:
        return np.concatenate(parts, axis=-1)

    def max_pool(self, x: Floats, size: int, stride: int, padding: int = 0) -> Floats:
        return _reduced(np.max, _windows(x, (size, size), stride, padding, beyond=-np.inf))

    def avg_pool(self, x: Floats, size: int) -> Floats:
        return _reduced(np.mean, _windows(x, (size, size), 1, None))

    def global_mean(self, x: Floats) -> Floats:
        mean: Floats = x.reshape(len(x), -1, x.shape[-1]).mean(axis=1)
        return mean

    def _conv(self, x: Floats, n_out: int, size: Any, stride: Any = 1, padding: Any = None) -> Floats:
        dims = x.ndim - 2
        kernel = self.weights.kernel(*_each(size, dims), x.shape[-1], n_out)
        windows = _windows(x, kernel.shape[:-2], stride, padding)
        y: Floats = np.tensordot(windows, np.moveaxis(kernel, -2, 0), axes=dims + 1)
        return y

    def _batch_norm(self, y: Floats, gain: float) -> Floats:
        norm = self.weights.batch_norm(y.shape[-1], gain)
        normed: Floats = norm.scale * (y - norm.mean) / np.sqrt(norm.variance + EPSILON) + norm.shift
        return normed


def _each(size: Any, dims: int) -> list[int]:
    return [size] * dims if isinstance(size, int) else list(size)


def _windows(x: Floats, size: Sequence[int], stride: Any, padding: Any, beyond: float = 0) -> Floats:
    """All windows, as (batch, positions …, channels, window …)."""
    dims = x.ndim - 2
    around = [extent // 2 for extent in size] if padding is None else _each(padding, dims)
    padded = np.pad(x, [(0, 0), *((one, one) for one in around), (0, 0)], constant_values=beyond)
    axes: Any = tuple(range(1, dims + 1))  # NumPy's stubs allow one axis only.
    windows: Floats = sliding_window_view(padded, tuple(size), axis=axes)
    return windows[(slice(None), *(slice(None, None, step) for step in _each(stride, dims)))]


def _reduced(by: Callable[..., Any], windows: Floats) -> Floats:
    flat = windows.reshape(*windows.shape[:4], prod(windows.shape[4:]))
    result: Floats = by(flat, axis=-1)
    return result
