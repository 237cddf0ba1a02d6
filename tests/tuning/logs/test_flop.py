"""FLOP, for every form of an operator the same number as for its plain form."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuning.logs.examples import CONV2D, VTA
from tuning.logs.flop import derived


def tensor(*shape: int, dtype: str = "float32") -> list[Any]:
    return ["TENSOR", list(shape), dtype]


RESNET_FIRST = 2 * 64 * 112 * 112 * 3 * 7 * 7
"""resnet's first convolution, whose output is 64×112×112."""
THREE_BY_THREE = 2 * 512 * 7 * 7 * 512 * 3 * 3
DEPTHWISE = 2 * 32 * 112 * 112 * 3 * 3
DENSE = 2 * 1000 * 512


@pytest.mark.parametrize(
    ("name", "args", "flop"),
    [
        ("conv2d_nchw.cuda", CONV2D, THREE_BY_THREE),
        ("conv2d_nchw_winograd.cuda", CONV2D, THREE_BY_THREE),
        ("conv2d_nchw_spatial_pack.mali", CONV2D, THREE_BY_THREE),
        ("topi_nn_conv2d", [*CONV2D[:4], "NCHW", "float32"], THREE_BY_THREE),
        ("topi_x86_conv2d_NCHWc", [*CONV2D[:5], "NCHW", "NCHW8c", "float32"], THREE_BY_THREE),
        ("conv2d_nchw.cuda", [tensor(1, 3, 224, 224), tensor(64, 3, 7, 7), [2, 2], [3, 3, 3, 3], [1, 1], "float32"], RESNET_FIRST),
        ("conv2d_nhwc.x86", [tensor(1, 224, 224, 3), tensor(7, 7, 3, 64), [2, 2], [3, 3], [1, 1], "float32"], RESNET_FIRST),
        ("conv2d_hwcn.cuda", [tensor(224, 224, 3, 1), tensor(7, 7, 3, 64), 2, 3, 1, "float32"], RESNET_FIRST),
        ("conv2d_nchw.cuda", [tensor(1, 3, 224, 224), tensor(64, 3, 7, 7), [2, 2], "SAME", [1, 1]], RESNET_FIRST),
        (
            "conv2d_NCHWc.x86",
            [tensor(1, 1, 224, 224, 3), tensor(8, 1, 7, 7, 3, 8), [2, 2], [3, 3, 3, 3], [1, 1], "NCHW3c", "NCHW8c", "float32"],
            RESNET_FIRST,
        ),
        (
            "conv2d_NCHWc_int8.cuda",
            [tensor(1, 128, 7, 7, 4, dtype="int8"), tensor(128, 128, 3, 3, 4, 4, dtype="int8"), [1, 1], [1, 1, 1, 1], [1, 1], "NCHW4c", "int32"],
            THREE_BY_THREE,
        ),
        (
            "conv2d_NCHWc_int8.x86",
            [tensor(1, 32, 7, 7, 16), tensor(32, 32, 3, 3, 4, 16, 4), [1, 1], [1, 1, 1, 1], [1, 1], "NCHW16c", "NCHW16c", "int32"],
            THREE_BY_THREE,
        ),
        ("conv2d_packed.vta", VTA, 2 * 256 * 14 * 14 * 256 * 3 * 3),
        ("group_conv2d_nchw.cuda", [tensor(1, 512, 7, 7), tensor(512, 16, 3, 3), [1, 1], [1, 1], [1, 1], 32, "float32"], THREE_BY_THREE // 32),
        ("conv2d_nchw.cuda", [tensor(1, 8, 9, 9), tensor(8, 8, 3, 3), [1, 1], "VALID", [2, 2], "float32"], 2 * 8 * 5 * 5 * 8 * 9),
        ("depthwise_conv2d_nchw.cuda", [tensor(1, 32, 112, 112), tensor(32, 1, 3, 3), [1, 1], [1, 1], [1, 1], "float32"], DEPTHWISE),
        ("topi_nn_depthwise_conv2d_nchw", [tensor(1, 32, 112, 112), tensor(32, 1, 3, 3), [1, 1], [1, 1], [1, 1], "float32"], DEPTHWISE),
        ("depthwise_conv2d_nhwc.arm_cpu", [tensor(1, 112, 112, 32), tensor(3, 3, 32, 1), [1, 1], [1, 1], [1, 1], "float32"], DEPTHWISE),
        (
            "depthwise_conv2d_NCHWc.x86",
            [tensor(1, 4, 112, 112, 8), tensor(4, 1, 3, 3, 1, 8), [1, 1], [1, 1, 1, 1], [1, 1], "NCHW8c", "NCHW8c", "float32"],
            DEPTHWISE,
        ),
        ("dense_nopack.x86", [tensor(1, 512), tensor(1000, 512), None, "float32"], DENSE),
        ("dense_pack.x86", [tensor(1, 512), tensor(125, 512, 8), None, "float32"], DENSE),
        ("topi_nn_dense", [tensor(1, 512), tensor(1000, 512), tensor(1000), "float32"], DENSE),
        ("dense_packed.vta", [tensor(1, 32, 1, 16, dtype="int8"), tensor(63, 32, 16, 16, dtype="int8"), None, "int32"], 2 * 1008 * 512),
        ("batch_matmul.x86", [tensor(12, 128, 64), tensor(12, 96, 64), [12, 128, 96], "float32", False, True], 2 * 12 * 128 * 96 * 64),
        ("batch_matmul.cuda", [tensor(12, 64, 128), tensor(1, 64, 96), [12, 128, 96], "float32", True, False], 2 * 12 * 128 * 96 * 64),
    ],
)  # fmt: skip
def test_it_counts(name: str, args: list[Any], flop: int) -> None:
    assert derived(name, args) == flop


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("autotvm_mm", [1000, 800, 700, "float32"]),
        ("conv2d_transpose_nchw.cuda", CONV2D),
        ("conv3d_ncdhw.cuda", CONV2D),
        ("pool2d", CONV2D),
        # The kernel is that of winograd's transformed domain: its extent isn't the window's.
        (
            "conv2d_nchw_winograd_without_weight_transform.cuda",
            [tensor(1, 64, 56, 56), tensor(6, 6, 64, 64), 1, 1, 1, "float32"],
        ),
        ("conv2d_nchw.cuda", [["TENSOR", [-1, 3, 224, 224], "float32"], *CONV2D[1:]]),
        ("conv2d_nchw.cuda", [tensor(1, 512, 2, 2), tensor(512, 512, 3, 3), [1, 1], [0, 0], [1, 1], "float32"]),
        ("conv2d_nchw.cuda", []),
        ("conv2d_nchw.cuda", [*CONV2D[:2], [0, 0], [1, 1], [1, 1]]),
        ("conv2d_nchw.cuda", [*CONV2D[:2], {}, [1, 1], [1, 1]]),
        ("batch_matmul.x86", [tensor(12, 128, 64), tensor(12, 96, 65), [12, 128, 96]]),
        ("dense_nopack.x86", [tensor(1, 512), tensor(1, 2, 3, 4)]),
    ],
)
def test_what_arguments_dont_determine_isnt_made_up(name: str, args: list[Any]) -> None:
    assert derived(name, args) is None
