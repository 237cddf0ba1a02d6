"""How alike two tasks are: the same operators in shapes that are near."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(?<!_f)(?<=[a-z])\d+(?=_|$)")
"""What TVM appends to the name of an operator that a network has more than once. Winograd's f2 and f4 are other operators."""

Shapes = Sequence[tuple[tuple[int, ...], str]]
"""Shape and data type of each argument."""


def operators(name: str) -> str:
    """The name of a function without the numbers that tell apart those of one network."""
    return _NUMBER.sub("", name)


def distance(one: Shapes, other: Shapes) -> float:
    """The sum over all extents of the binary logarithms of their ratios; infinite if ranks or types differ."""
    if [(len(shape), dtype) for shape, dtype in one] != [(len(shape), dtype) for shape, dtype in other]:
        return math.inf
    pairs = (
        (a, b) for (ours, _), (theirs, _) in zip(one, other, strict=True) for a, b in zip(ours, theirs, strict=True)
    )
    return sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in pairs)
