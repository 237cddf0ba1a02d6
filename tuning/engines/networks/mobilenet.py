"""MobileNet (Howard et al. 2017), version 1, at full width."""

from __future__ import annotations

from typing import Any

BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
"""Channels and stride of each block."""


def mobilenet(layers: Any, image: Any) -> Any:
    """224 × 224 × 3 to 1000 classes."""
    x = layers.relu(layers.conv(image, 32, 3, stride=2))
    for n_out, stride in BLOCKS:
        x = layers.relu(layers.depthwise(x, 3, stride))
        x = layers.relu(layers.conv(x, n_out, 1))
    return layers.dense(layers.global_mean(x), 1000)
