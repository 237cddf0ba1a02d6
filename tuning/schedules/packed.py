"""What the packed tensors of VTA's tasks are unpacked: VTA computes on blocks of batch and channels, which stand last in its shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Axes = Sequence[tuple[str, Sequence[int]]]
CONV2D: tuple[Axes, Axes] = (
    (("N", (0, 4)), ("C", (1, 5)), ("H", (2,)), ("W", (3,))),
    (("O", (0, 4)), ("I", (1, 5)), ("H", (2,)), ("W", (3,))),
)
DENSE: tuple[Axes, Axes] = (
    (("N", (0, 2)), ("I", (1, 3))),
    (("O", (0, 2)), ("I", (1, 3))),
)
LAYOUTS = {"conv2d_packed.vta": CONV2D, "group_conv2d_packed.vta": CONV2D, "dense_packed.vta": DENSE}
"""By template: for data and weights, each axis and the places of its parts in the packed shape, blocks before the extent of a block."""


@dataclass(frozen=True)
class Unpacked:
    """A packed operator without its packing."""

    tensors: list[str]
    """Of data and weights: `N 1, C 256 = 16 × 16, H 14, W 14`."""
    words: str
    """The whole operator in a sentence."""


def unpacked(name: str, args: Sequence[Mapping[str, Any]]) -> Unpacked | None:
    """`name` and `args` are those of a task. None if it isn't packed, or its shapes aren't those of its template."""
    layout = LAYOUTS.get(name)
    shapes = [arg.get("shape") or [] for arg in args[:2]]
    if layout is None or [len(shape) for shape in shapes] != [sum(len(parts) for _, parts in axes) for axes in layout]:
        return None
    tensors = [
        [(axis, [shape[place] for place in places]) for axis, places in axes]
        for axes, shape in zip(layout, shapes, strict=True)
    ]
    data, weights = ({axis: _product(parts) for axis, parts in tensor} for tensor in tensors)
    sentence = _dense(data, weights) if layout is DENSE else _conv2d(data, weights)
    return Unpacked([", ".join(_axis(axis, parts) for axis, parts in tensor) for tensor in tensors], sentence)


def _axis(name: str, parts: Sequence[int]) -> str:
    if len(parts) == 1 or 1 in parts:
        return f"{name} {_product(parts)}"
    return f"{name} {_product(parts)} = {' × '.join(map(str, parts))}"


def _product(parts: Sequence[int]) -> int:
    product = 1
    for part in parts:
        product *= part
    return product


def _conv2d(data: Mapping[str, int], weights: Mapping[str, int]) -> str:
    groups = data["C"] // weights["I"] if weights["I"] else 1
    grouped = f" in {groups} groups" if groups > 1 else ""
    return (
        f"{weights['O']} filters of {weights['H']} × {weights['W']} over {data['C']} channels{grouped} "
        f"of {_images(data['N'])} of {data['H']} × {data['W']}"
    )


def _images(batch: int) -> str:
    return "an image" if batch == 1 else f"{batch} images"


def _dense(data: Mapping[str, int], weights: Mapping[str, int]) -> str:
    return f"a {data['N']} × {data['I']} matrix times the transpose of one of {weights['O']} × {weights['I']}"
