"""What bounds a task on a machine: how fast the machine computes, or how fast it moves the task's data. docs/gain.md says how both are measured."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

By = Literal["compute", "memory"]
COMPUTED, INDICES = "float32", frozenset(("int32", "int64"))
"""What peaks are measured for, and what integers among the arguments of a task are that computes in it."""
CARRIED = frozenset((COMPUTED, *INDICES, "bool"))
"""What its arguments may be."""


class Bound(NamedTuple):
    """The least that a task can take, in seconds; what bounds it; and its floating-point operations per byte."""

    latency_s: float
    by: By
    intensity: float


class Roofline(NamedTuple):
    """A machine at its best: floating-point operations per second, and bytes per second by the size of a working set in bytes, ascending."""

    flops: float
    bandwidths: Sequence[tuple[int, float]]

    def bandwidth(self, size: float) -> float:
        """Bytes per second of a working set of so many bytes: between two that were measured, on the straight line of a log-log chart.

        What a larger one reaches, a smaller one can reach, too; so a disturbance while a small one was measured lowers no roof.
        """
        sizes = [measured for measured, _ in self.bandwidths]
        at = bisect_left(sizes, size)
        if at in (0, len(sizes)):
            return self._at_least(min(at, len(sizes) - 1))
        below, above = self._at_least(at - 1), self._at_least(at)
        part = math.log(size / sizes[at - 1]) / math.log(sizes[at] / sizes[at - 1])
        return below * math.pow(above / below, part)

    def bound(self, flop: float, size: int) -> Bound:
        """The least that a task can take with so many operations on so many bytes, each of them moved once."""
        computing_s, moving_s = flop / self.flops, size / self.bandwidth(size)
        by: By = "compute" if computing_s > moving_s else "memory"
        return Bound(max(computing_s, moving_s), by, flop / size)

    def _at_least(self, at: int) -> float:
        return max(bandwidth for _, bandwidth in self.bandwidths[at:])


def compulsory_bytes(args: Iterable[Mapping[str, Any]]) -> int | None:
    """Bytes of a task's inputs and outputs, once each; None if they aren't known, or if it doesn't compute in `COMPUTED`.

    `args` are the inputs, then the output. What is read of an array at indices isn't known: at least as much as goes out, if it has that much.
    """
    given = list(args)
    dtypes = [str(arg["dtype"]) for arg in given]
    if COMPUTED not in dtypes or not CARRIED.issuperset(dtypes):
        return None
    sizes: list[int] = [math.prod(arg["shape"]) * _width(str(arg["dtype"])) for arg in given]
    if not all(size > 0 for size in sizes):
        return None
    if INDICES.isdisjoint(dtypes[:-1]):
        return sum(sizes)
    return sum(min(size, sizes[-1]) if dtype == COMPUTED else size for size, dtype in zip(sizes, dtypes, strict=True))


def _width(dtype: str) -> int:
    """In bytes."""
    bits = re.search(r"\d+$", dtype)
    return int(bits[0]) // 8 if bits else 1
