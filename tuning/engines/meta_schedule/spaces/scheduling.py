"""What our rules share when they schedule a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .products import SUMS

FEWEST_JOBS = 8
"""With fewer, threads would get unequal shares, or none."""


def one_of(schedule: Any, values: Sequence[int]) -> Any:
    """One of the values, which the search chooses. All are as likely when candidates are drawn."""
    return schedule.sample_categorical(list(values), [1 / len(values)] * len(values))


def reduces(schedule: Any, block: Any) -> bool:
    """Whether the block sums, or takes the maximum, along any axis."""
    return any(int(one.iter_type) == SUMS for one in schedule.get(block).iter_vars)
