from __future__ import annotations

from typing import Any

import pytest

from tuning.schedules.packed import unpacked


def tensors(*shapes: list[int]) -> list[dict[str, Any]]:
    return [{"name": None, "shape": shape, "dtype": "int8"} for shape in shapes]


def test_a_packed_convolution_is_told_without_its_packing() -> None:
    told = unpacked("conv2d_packed.vta", tensors([1, 8, 28, 28, 1, 16], [16, 8, 3, 3, 16, 16]))
    assert told
    assert told.tensors == ["N 1, C 128 = 8 × 16, H 28, W 28", "O 256 = 16 × 16, I 128 = 8 × 16, H 3, W 3"]
    assert told.words == "256 filters of 3 × 3 over 128 channels of an image of 28 × 28"


def test_batches_may_be_packed_too() -> None:
    told = unpacked("conv2d_packed.vta", tensors([2, 1, 7, 7, 4, 16], [1, 1, 1, 1, 16, 16]))
    assert told
    assert told.tensors[0] == "N 8 = 2 × 4, C 16, H 7, W 7"
    assert told.words.endswith("of 8 images of 7 × 7")


def test_grouped_convolutions_and_dense_layers_have_layouts_of_their_own() -> None:
    grouped = unpacked("group_conv2d_packed.vta", tensors([1, 4, 14, 14, 1, 16], [4, 1, 3, 3, 16, 16]))
    assert grouped
    assert grouped.words == "64 filters of 3 × 3 over 64 channels in 4 groups of an image of 14 × 14"
    dense = unpacked("dense_packed.vta", tensors([1, 32, 1, 16], [63, 32, 16, 16]))
    assert dense
    assert dense.tensors == ["N 1, I 512 = 32 × 16", "O 1008 = 63 × 16, I 512 = 32 × 16"]
    assert dense.words == "a 1 × 512 matrix times the transpose of one of 1008 × 512"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("conv2d_nchw.cuda", tensors([1, 512, 7, 7], [512, 512, 3, 3])),
        ("conv2d_packed.vta", tensors([1, 512, 7, 7], [512, 512, 3, 3])),
        ("conv2d_packed.vta", tensors([1, 8, 28, 28, 1, 16])),
        ("conv2d_packed.vta", []),
    ],
)
def test_nothing_is_said_of_what_isnt_packed_so(name: str, args: Any) -> None:
    assert unpacked(name, args) is None
