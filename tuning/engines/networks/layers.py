"""The layers that networks are built from, in Relax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from tvm import relax
from tvm.relax import op

from .weights import Floats, Weights

Size = int | tuple[int, ...]
"""One extent for all spatial axes, or one for each."""


class Window(NamedTuple):
    """The window of a convolution, with a number for each spatial axis."""

    size: list[int]
    stride: list[int]
    padding: list[int]


class Layers:
    """Emits layers into one Relax function. Tensors have the axes of `layout`, such as `NHWC`."""

    def __init__(self, dtype: str, layout: str) -> None:
        self.bb = relax.BlockBuilder()
        self.weights = Weights()
        self._dtype = dtype
        self._layout = layout
        self._channels = layout.index("C")
        self._spatial = [layout.index(axis) for axis in layout if axis not in "NC"]

    def channels(self, x: Any) -> int:
        return self._extents(x)[self._channels]

    def conv(self, x: Any, n_out: int, size: Size, stride: Size = 1, padding: Size | None = None) -> Any:
        """Convolution with its batch norm folded into kernel and bias. By default padded to keep the extents."""
        return self._normed(x, n_out, self._window(size, stride, padding))

    def conv_scaled(self, x: Any, n_out: int, size: Size, gain: float) -> Any:
        """As `conv` with stride 1, for a branch that is added to another. Its batch norm scales by `gain`."""
        return self._normed(x, n_out, self._window(size), gain=gain)

    def depthwise(self, x: Any, size: Size, stride: Size = 1) -> Any:
        """Depthwise convolution with its batch norm folded."""
        n = self.channels(x)
        return self._normed(x, n, self._window(size, stride), groups=n)

    def conv_biased(self, x: Any, n_out: int, size: Size, stride: Size = 1, padding: Size | None = None) -> Any:
        """Convolution with a bias instead of a batch norm."""
        window = self._window(size, stride, padding)
        kernel = self.weights.kernel(*window.size, self.channels(x), n_out)
        return self._conv(x, kernel, self.weights.bias(n_out), window)

    def dense(self, x: Any, n_out: int) -> Any:
        """Fully connected layer. Its weight is stored as (in, out), the order in which it is multiplied."""
        kernel = self.weights.kernel(self._extents(x)[-1], n_out)
        return self.add(self.matmul(x, self._const(kernel)), self._const(self.weights.bias(n_out)))

    def matmul(self, a: Any, b: Any) -> Any:
        return self.bb.emit(op.matmul(a, b))

    def relu(self, x: Any) -> Any:
        return self.bb.emit(op.nn.relu(x))

    def add(self, x: Any, y: Any) -> Any:
        return self.bb.emit(op.add(x, y))

    def concat(self, parts: Sequence[Any]) -> Any:
        """Concatenate along the channels."""
        return self.bb.emit(op.concat(list(parts), axis=self._channels))

    def max_pool(self, x: Any, size: int, stride: int, padding: int = 0) -> Any:
        pool = op.nn.max_pool2d
        return self.bb.emit(pool(x, (size, size), strides=stride, padding=padding, layout=self._layout))

    def avg_pool(self, x: Any, size: int) -> Any:
        """The mean around each pixel, counting zeros beyond the border."""
        windows = {"strides": 1, "padding": size // 2, "count_include_pad": True}
        return self.bb.emit(op.nn.avg_pool2d(x, (size, size), **windows, layout=self._layout))

    def global_mean(self, x: Any) -> Any:
        """The mean of each channel, as (batch, channels)."""
        return self.bb.emit(op.mean(x, axis=self._spatial))

    def _normed(self, x: Any, n_out: int, window: Window, groups: int = 1, gain: float = 1.0) -> Any:
        kernel = self.weights.kernel(*window.size, self.channels(x) // groups, n_out)
        norm = self.weights.batch_norm(n_out, gain)
        kernel *= norm.factor()
        return self._conv(x, kernel, norm.offset(), window, groups)

    def _conv(self, x: Any, kernel: Floats, bias: Floats, window: Window, groups: int = 1) -> Any:
        """Transpose the `kernel` (…, in, out) for the layout here, once, so that doing so doesn't become a task."""
        spatial = "".join(self._layout[axis] for axis in self._spatial)
        if first := self._channels == 1:
            kernel = np.moveaxis(kernel, (-1, -2), (0, 1))
        y = (op.nn.conv2d if len(spatial) == 2 else op.nn.conv3d)(
            x,
            self._const(kernel),
            strides=window.stride,
            padding=window.padding,
            groups=groups,
            data_layout=self._layout,
            kernel_layout=f"OI{spatial}" if first else f"{spatial}IO",
        )
        return self.add(self.bb.emit(y), self._const(bias.reshape(-1, *(1 for _ in spatial)) if first else bias))

    def _window(self, size: Size, stride: Size = 1, padding: Size | None = None) -> Window:
        extents = self._each(size)
        around = [extent // 2 for extent in extents] if padding is None else self._each(padding)
        return Window(extents, self._each(stride), around)

    def _each(self, size: Size) -> list[int]:
        return [size] * len(self._spatial) if isinstance(size, int) else list(size)

    def _const(self, numbers: Floats) -> Any:
        return relax.const(np.ascontiguousarray(numbers, self._dtype))

    @staticmethod
    def _extents(x: Any) -> list[int]:
        return [int(extent) for extent in x.ty.shape]
