"""ResNets of images (He et al. 2016) and of video (Tran et al. 2018), as torchvision builds them."""

from __future__ import annotations

from typing import Any

UNITS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks per stage, by depth."""


def resnet(layers: Any, image: Any, *, depth: int) -> Any:
    """224 × 224 × 3 to 1000 classes. The 3 × 3 convolutions have the strides ("v1.5")."""
    x = layers.relu(layers.conv(image, 64, 7, stride=2))
    return layers.dense(_stages(layers, layers.max_pool(x, 3, stride=2, padding=1), depth), 1000)


def resnet3d(layers: Any, clip: Any, *, depth: int) -> Any:
    """16 frames of 112 × 112 × 3 to the 400 classes of Kinetics. There is no pool after the first layer."""
    x = layers.relu(layers.conv(clip, 64, (3, 7, 7), stride=(1, 2, 2)))
    return layers.dense(_stages(layers, x, depth), 400)


def _stages(layers: Any, x: Any, depth: int) -> Any:
    block = _basic if depth < 50 else _bottleneck
    gain = sum(UNITS[depth]) ** -0.5  # Keeps the sum over all blocks about as large as the input.
    for stage, blocks in enumerate(UNITS[depth]):
        for nth in range(blocks):
            x = block(layers, x, 64 << stage, 2 if stage and not nth else 1, gain)
    return layers.global_mean(x)


def _basic(layers: Any, x: Any, n: int, stride: int, gain: float) -> Any:
    y = layers.relu(layers.conv(x, n, 3, stride))
    return _joined(layers, x, layers.conv_scaled(y, n, 3, gain), stride)


def _bottleneck(layers: Any, x: Any, n: int, stride: int, gain: float) -> Any:
    y = layers.relu(layers.conv(x, n, 1))
    y = layers.relu(layers.conv(y, n, 3, stride))
    return _joined(layers, x, layers.conv_scaled(y, 4 * n, 1, gain), stride)


def _joined(layers: Any, x: Any, y: Any, stride: int) -> Any:
    """A block's output: its branch `y` plus its input `x`, which is projected if the shapes differ."""
    n = layers.channels(y)
    return layers.relu(layers.add(y, x if layers.channels(x) == n else layers.conv(x, n, 1, stride)))
