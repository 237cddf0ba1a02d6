"""TVM's default schedules for GPUs, which run only functions that are scheduled."""

from __future__ import annotations

from typing import Any


def rules() -> tuple[Any, ...]:
    """TVM's rules, of which the first that fits a function schedules it."""
    from tvm.s_tir.dlight import gpu

    return gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()


def default_schedule(function: Any, target: Any) -> Any | None:
    """TVM's schedule of a function; None if no rule fits. Raises TVM's errors."""
    tunable = False
    with target:
        found = (rule.apply(function, target, tunable) for rule in rules())
        return next((each for each in found if each is not None), None)
