"""Inception v3 (Szegedy et al. 2016) without the auxiliary classifier, which only training needs."""

from __future__ import annotations

from typing import Any

ROW, COLUMN = (1, 7), (7, 1)


def inception(layers: Any, image: Any) -> Any:
    """299 × 299 × 3 to 1000 classes. Images need at least 75 pixels a side."""
    x = _chain(layers, image, (32, 3, 2, 0), (32, 3, 1, 0), (64, 3))
    x = _chain(layers, layers.max_pool(x, 3, stride=2), (80, 1), (192, 3, 1, 0))
    x = layers.max_pool(x, 3, stride=2)
    for pooled in (32, 64, 64):
        x = _squares(layers, x, pooled)
    x = _shrink(layers, x, [(384, 3, 2, 0)], [(64, 1), (96, 3), (96, 3, 2, 0)])
    for n in (128, 160, 160, 192):
        x = _rows_and_columns(layers, x, n)
    x = _shrink(layers, x, [(192, 1), (320, 3, 2, 0)], [(192, 1), (192, ROW), (192, COLUMN), (192, 3, 2, 0)])
    for _ in range(2):
        x = _fans(layers, x)
    return layers.dense(layers.global_mean(x), 1000)


def _chain(layers: Any, x: Any, *convs: Any) -> Any:
    """Convolutions, each followed by a ReLU. Their arguments are channels, size, stride and padding."""
    for conv in convs:
        x = layers.relu(layers.conv(x, *conv))
    return x


def _squares(layers: Any, x: Any, pooled: int) -> Any:
    return layers.concat(
        [
            _chain(layers, x, (64, 1)),
            _chain(layers, x, (48, 1), (64, 5)),
            _chain(layers, x, (64, 1), (96, 3), (96, 3)),
            _chain(layers, layers.avg_pool(x, 3), (pooled, 1)),
        ]
    )


def _shrink(layers: Any, x: Any, *branches: Any) -> Any:
    """Halve height and width."""
    convolved = [_chain(layers, x, *branch) for branch in branches]
    return layers.concat([*convolved, layers.max_pool(x, 3, stride=2)])


def _rows_and_columns(layers: Any, x: Any, n: int) -> Any:
    return layers.concat(
        [
            _chain(layers, x, (192, 1)),
            _chain(layers, x, (n, 1), (n, ROW), (192, COLUMN)),
            _chain(layers, x, (n, 1), (n, COLUMN), (n, ROW), (n, COLUMN), (192, ROW)),
            _chain(layers, layers.avg_pool(x, 3), (192, 1)),
        ]
    )


def _fans(layers: Any, x: Any) -> Any:
    short, long = _chain(layers, x, (384, 1)), _chain(layers, x, (448, 1), (384, 3))
    fanned = [_chain(layers, stem, (384, size)) for stem in (short, long) for size in ((1, 3), (3, 1))]
    return layers.concat([_chain(layers, x, (320, 1)), *fanned, _chain(layers, layers.avg_pool(x, 3), (192, 1))])
