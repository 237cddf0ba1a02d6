"""What build and measurement workers do. Each function runs in a process of its own, forked from a warm one.

Faults of a candidate come back as a `Fault`, since exceptions of TVM don't survive the way between processes.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tuning.engines.wire.lifeline import die_with

from . import race
from .arguments import FILL, allocated

T = TypeVar("T")


@dataclass(frozen=True)
class Fault:
    """Why a candidate failed, in the words of TVM or the compiler."""

    text: str


@dataclass(frozen=True)
class Timing:
    """What a measurement gave: seconds of one execution in each repeat, or in each lap of a short one."""

    run_secs: list[float]
    short: bool = False


def begin(threads: int | None) -> None:
    """Prepare a new worker; `threads` are those that a measured function may use, if it matters."""
    die_with(os.getppid())
    if threads:
        # TVM halves the logical cores of x86 otherwise, whatever the target's num-cores says.
        os.environ["TVM_NUM_THREADS"] = str(threads)


def guarded(function: Callable[..., T], *args: Any) -> T | Fault:
    """The function's result, or its exception's text."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001  whatever a candidate does is that trial's result
        return Fault("".join(traceback.format_exception_only(error)).strip())


def build(mod_json: str, target_json: str, path: str) -> None:
    """Build a scheduled module and write it to `path`, whose suffix chooses the format."""
    import tvm
    from tvm.s_tir.meta_schedule.builder.local_builder import default_build

    built = default_build(tvm.ir.load_json(mod_json), tvm.target.Target(target_json), None)
    if path.endswith(".ll"):
        built.write_to_file(path, "ll")
    else:
        built.export_library(path)


def measure(
    path: str, device_type: str, args_info: list[Any], config: tuple[int, int, int], limit_s: float | None
) -> Timing:
    """Measure: `repeat` times the average of `number` executions, or of more in `min_repeat_ms`.

    A candidate that is slower than the limit is measured in short laps only, more of them than `repeat`.
    """
    import tvm
    from tvm.s_tir.meta_schedule.runner import EvaluatorConfig
    from tvm.s_tir.meta_schedule.runner.local_runner import default_run_evaluator

    device = tvm.runtime.device(device_type, 0)
    module = tvm.runtime.load_module(path)
    arguments = allocated(tvm.get_global_func(FILL), device, args_info)

    def run_secs(config: EvaluatorConfig) -> list[float]:
        return [float(seconds) for seconds in default_run_evaluator(module, device, config, arguments)]

    return raced(run_secs, config, limit_s)


def raced(run_secs: Callable[[Any], list[float]], config: tuple[int, int, int], limit_s: float | None) -> Timing:
    """Measure by what takes an `EvaluatorConfig`: shortly when it is slower than the limit, else in full."""
    from tvm.s_tir.meta_schedule.runner import EvaluatorConfig

    number, repeat, min_repeat_ms = config

    def laps(repeat: int) -> list[float]:
        return run_secs(EvaluatorConfig(number=1, repeat=repeat, min_repeat_ms=race.LAP_MS))

    if limit_s is not None and (slow := race.lost(laps, limit_s, at_least=max(2, repeat + 1))):
        return Timing(slow, short=True)
    return Timing(run_secs(EvaluatorConfig(number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)))
