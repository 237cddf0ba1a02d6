"""How alike two tasks are."""

from __future__ import annotations

import math

import pytest

from tuning.likeness import distance, operators


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fused_conv2d12_add9_relu7", "fused_conv2d_add_relu"),
        ("fused_conv2d_add_relu", "fused_conv2d_add_relu"),
        ("fused_winograd_f4_conv2d1_add3", "fused_winograd_f4_conv2d_add"),
        ("max_pool2d1", "max_pool2d"),
        ("fused_matmul_add16", "fused_matmul_add"),
    ],
)
def test_operators_are_named_without_the_numbers_of_one_network(name: str, said: str) -> None:
    assert operators(name) == said


def test_the_distance_of_shapes_is_that_of_their_extents() -> None:
    one = [((1, 56, 64), "float32"), ((64,), "float32")]
    assert distance(one, one) == 0
    assert distance(one, [((1, 28, 128), "float32"), ((64,), "float32")]) == 2
    assert distance(one, one[:1]) == math.inf
    assert distance(one, [((56, 64), "float32"), ((64,), "float32")]) == math.inf
    assert distance(one, [((1, 56, 64), "float16"), ((64,), "float32")]) == math.inf
