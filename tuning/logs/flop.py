"""FLOP of an AutoTVM task, where its arguments determine it. A multiplication and an addition are two.

Templates of one operator differ in the layout of their tensors. The count is 2 · outputs · products per output, whatever the layout:
TVM counts so too, for winograd and for quantized types as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

Shape = Sequence[int]


class Window(NamedTuple):
    """What a convolution of any layout consists of. `channels` are a group's input channels."""

    batch: int
    height: int
    width: int
    filters: int
    channels: int
    kernel_height: int
    kernel_width: int


def derived(name: str, args: Sequence[Any]) -> int | None:
    """FLOP of the task, or None if its operator is another or its arguments don't say.

    `args` are as AutoTVM writes them: `["TENSOR", shape, dtype]` for a tensor.
    """
    operator = name.partition(".")[0].removeprefix("topi_")
    operator = re.sub(r"^(nn|x86|cuda|arm_cpu|rocm|mali|bifrost|intel_graphics|hls|opengl|vta|generic)_", "", operator)
    try:
        return next((count(operator, args) for pattern, count in COUNTS if pattern.match(operator)), None)
    except (ValueError, TypeError, IndexError, KeyError):
        return None


def _shape(arg: Any) -> Shape:
    tag, shape, *_ = arg
    if tag != "TENSOR" or not all(type(extent) is int and extent > 0 for extent in shape):
        raise ValueError("not a tensor of a known shape")
    return list(shape)


def _conv2d(operator: str, args: Sequence[Any]) -> int:
    window = _window(operator, _shape(args[0]), _shape(args[1]))
    high, wide = _outputs(window, args)
    if high <= 0 or wide <= 0:
        raise ValueError("the kernel is larger than the image")
    products = window.channels * window.kernel_height * window.kernel_width
    return 2 * window.batch * window.filters * high * wide * products


def _window(operator: str, data: Shape, kernel: Shape) -> Window:
    if "weight_transform" in operator or "HWNCnc" in operator or "gemm" in operator:
        raise ValueError("the kernel was transformed, so its extent isn't known")
    if "depthwise" in operator:
        return _depthwise(operator, data, kernel)
    if "hwcn" in operator:
        return Window(data[3], data[0], data[1], kernel[3], kernel[2], kernel[0], kernel[1])
    if len(data) == 4 and "nhwc" in operator:
        height, width, channels, filters = kernel
        return Window(data[0], data[1], data[2], filters, channels, height, width)
    return _channels_first(data, kernel)


def _channels_first(data: Shape, kernel: Shape) -> Window:
    """NCHW, NCHWc (kernels OIHWio, or OIHWioi for int8) and VTA's NCHWnc (kernels OIHWoi)."""
    batch, _, height, width, *packed = data
    filters, channels, kernel_height, kernel_width, *blocks = kernel
    if (len(packed), len(blocks)) not in {(0, 0), (1, 2), (1, 3), (2, 2)}:
        raise ValueError("a layout that isn't known")
    inner = packed[0] if len(packed) == 2 else 1
    return Window(batch * inner, height, width, filters * prod(blocks), channels, kernel_height, kernel_width)


def _depthwise(operator: str, data: Shape, kernel: Shape) -> Window:
    if len(data) == 4 and "nhwc" in operator:
        height, width, channels, multiplier = kernel
        return Window(data[0], data[1], data[2], channels * multiplier, 1, height, width)
    batch, _, height, width, *_ = data
    channels, multiplier, kernel_height, kernel_width, *blocks = kernel
    return Window(batch, height, width, channels * multiplier * prod(blocks), 1, kernel_height, kernel_width)


def _outputs(window: Window, args: Sequence[Any]) -> tuple[int, int]:
    strides, padding, dilation = _pair(args[2]), args[3], _pair(args[4]) if _is_extent(args, 4) else (1, 1)
    if min(*strides, *dilation) < 1:
        raise ValueError("strides and dilation should be positive")
    reach = [
        (extent - 1) * step + 1
        for extent, step in zip((window.kernel_height, window.kernel_width), dilation, strict=True)
    ]
    if padding == "SAME":
        return -(-window.height // strides[0]), -(-window.width // strides[1])
    top, left, bottom, right = _sides(padding)
    return (
        (window.height + top + bottom - reach[0]) // strides[0] + 1,
        (window.width + left + right - reach[1]) // strides[1] + 1,
    )


def _is_extent(args: Sequence[Any], index: int) -> bool:
    """Old templates have no dilation: the layout or dtype stands in its place."""
    return len(args) > index and not isinstance(args[index], str)


def _pair(value: Any) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else value
    return int(first), int(second)


def _sides(padding: Any) -> tuple[int, int, int, int]:
    if padding == "VALID":
        return 0, 0, 0, 0
    if isinstance(padding, int) or len(padding) == 2:
        high, wide = _pair(padding)
        return high, wide, high, wide
    top, left, bottom, right = padding
    return top, left, bottom, right


def _dense(_operator: str, args: Sequence[Any]) -> int:
    """Data is M×K or VTA's packed mkMK; weight N×K, or packed `NKn` on x86 and `NKnk` on VTA."""
    data, weight = _shape(args[0]), _shape(args[1])
    if (len(data), len(weight)) == (4, 4):
        return 2 * data[0] * data[2] * prod(weight)
    if (len(data), len(weight)) not in {(2, 2), (2, 3)}:
        raise ValueError("a layout that isn't known")
    return 2 * data[0] * prod(weight)


def _batch_matmul(_operator: str, args: Sequence[Any]) -> int:
    """Batch×M×K by batch×N×K, unless the arguments say that one is transposed. Either batch may be 1."""
    left, right = _shape(args[0]), _shape(args[1])
    truths = [arg for arg in args[2:] if isinstance(arg, bool)]
    left_transposed, right_transposed = truths if len(truths) == 2 else (False, True)
    batch, rows, depth = _turned(left, turn=left_transposed)
    other, depth_again, columns = _turned(right, turn=right_transposed)
    if depth != depth_again:
        raise ValueError("the matrices don't fit")
    return 2 * max(batch, other) * rows * columns * depth


def _turned(shape: Shape, *, turn: bool) -> tuple[int, int, int]:
    batch, rows, columns = shape
    return (batch, columns, rows) if turn else (batch, rows, columns)


COUNTS: tuple[tuple[re.Pattern[str], Callable[[str, Sequence[Any]], int]], ...] = (
    (re.compile(r"(group_)?conv2d(?!_transpose|_gemm)|(contrib_|nn_)?depthwise_conv2d(?!_backward)"), _conv2d),
    (re.compile(r"dense"), _dense),
    (re.compile(r"batch_matmul"), _batch_matmul),
)
