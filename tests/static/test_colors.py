"""The colors of curves, which must be told apart."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path

import pytest

from dashboard.presentation import charts

TO_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
"""Oklab (Ottosson 2020)."""
NEAR = 0.09
"""Two blues with 0.08 between them were taken for one."""


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_no_two_curves_have_nearly_the_same_color(project_root: Path, theme: int) -> None:
    css = (project_root / "static/css/app.css").read_text()
    series = [pair[theme] for pair in re.findall(r"--series-\d: light-dark\((#\w{6}), (#\w{6})\)", css)]
    assert len(series) == charts.SERIES
    assert [(one, other) for one, other in combinations(series, 2) if distance(one, other) < NEAR] == []


def distance(one: str, other: str) -> float:
    return math.dist(oklab(one), oklab(other))


def oklab(color: str) -> list[float]:
    linear = [_linear(int(color[at : at + 2], 16) / 255) for at in (1, 3, 5)]
    return _times(TO_LAB, [cone ** (1 / 3) for cone in _times(TO_CONES, linear)])


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def _times(matrix: tuple[tuple[float, ...], ...], vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]
