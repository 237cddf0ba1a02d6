"""SqueezeNet 1.1 (Iandola et al. 2016, as revised by its authors)."""

from __future__ import annotations

from typing import Any

STAGES = (((16, 64), (16, 64)), ((32, 128), (32, 128)), ((48, 192), (48, 192), (64, 256), (64, 256)))
"""Squeezed and expanded channels of each fire module. Each stage starts with a max pool."""


def squeezenet(layers: Any, image: Any) -> Any:
    """224 × 224 × 3 to 1000 classes."""
    x = layers.relu(layers.conv_biased(image, 64, 3, stride=2, padding=0))
    for stage in STAGES:
        x = layers.max_pool(x, 3, stride=2)
        for squeezed, expanded in stage:
            x = _fire(layers, x, squeezed, expanded)
    return layers.global_mean(layers.relu(layers.conv_biased(x, 1000, 1)))


def _fire(layers: Any, x: Any, squeezed: int, expanded: int) -> Any:
    x = layers.relu(layers.conv_biased(x, squeezed, 1))
    return layers.concat([layers.relu(layers.conv_biased(x, expanded, size)) for size in (1, 3)])
