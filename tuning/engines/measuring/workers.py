"""The functions that build and measurement workers run, each in a process forked from one with TVM loaded."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from pebble import CONSTS

from tuning.engines.targets import vector_math
from tuning.engines.wire.lifeline import die_with_fork_server

from . import cold, race
from .arguments import RANDOM_FILL, allocated
from .outcomes import Evaluation, Timing, WorkerError

T = TypeVar("T")
CPU = "cpu"
"""TVM's name of this machine's device. All others are GPUs here."""
UNFREED: list[Exception] = []
"""Errors of GPUs, each with what it was about. Once a kernel has failed, CUDA's driver fails to free memory, too, at which TVM aborts
the process: so nothing is freed until the error was passed on and the process is ended."""
LOCK_S = 5.0
"""Workers hold the lock of their channel for an instant. One that is killed just then never releases it."""


def initialize(threads: int | None, niceness: int) -> None:
    """Prepare a new worker, so much nicer than the fork server. `threads` limits those of a measured function."""
    die_with_fork_server()
    os.nice(niceness)
    CONSTS.channel_lock_timeout = LOCK_S
    if threads:
        # By default TVM ignores the target's num-cores and uses half of an x86 CPU's logical cores.
        os.environ[cold.THREADS] = str(threads)


def guarded(function: Callable[..., T], *args: Any) -> T | WorkerError:
    """The function's result, or the text of its exception."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001  any error of a candidate is its trial's result
        return WorkerError("".join(traceback.format_exception_only(error)).strip())


def build(mod_json: str, target_json: str, path: str) -> None:
    """Build a scheduled module and write it to `path`, whose suffix selects the format."""
    import tvm
    from tvm.s_tir.meta_schedule.builder.local_builder import default_build

    vector_math.use()
    built = default_build(tvm.ir.load_json(mod_json), tvm.target.Target(target_json), None)
    if path.endswith(".ll"):
        built.write_to_file(path, "ll")
    else:
        built.export_library(path)


def measure(path: str, device_type: str, args_info: list[Any], how: Evaluation) -> Timing:
    """Measure an artifact on this machine. See `measure_with_race`, and `cold.Evaluator` about weights that aren't in the caches."""
    try:
        return _measured(path, device_type, args_info, how)
    except Exception as error:
        if device_type != CPU:
            UNFREED.append(error)
        raise


def _measured(path: str, device_type: str, args_info: list[Any], how: Evaluation) -> Timing:
    import tvm
    from tvm.s_tir.meta_schedule.runner import EvaluatorConfig
    from tvm.s_tir.meta_schedule.runner.local_runner import default_run_evaluator

    device = tvm.runtime.device(device_type, 0)
    module = tvm.runtime.load_module(path)
    arguments = allocated(tvm.get_global_func(RANDOM_FILL), device, args_info)
    if how.cold_bytes:
        tensors = [(kind, tensor) for (kind, *_), tensor in zip(args_info, *arguments, strict=True)]
        evaluator = cold.Evaluator(module, device, tensors, how.cold_bytes)
        return measure_with_race(evaluator.run_secs, how.config, how.limit_s)

    def run_secs(config: EvaluatorConfig) -> list[float]:
        return [float(seconds) for seconds in default_run_evaluator(module, device, config, arguments)]

    return measure_with_race(run_secs, how.config, how.limit_s)


def measure_with_race(
    run_secs: Callable[[Any], list[float]], config: tuple[int, int, int], limit_s: float | None
) -> Timing:
    """Measure at full length, unless the candidate loses a race against `limit_s`; None means no race.

    `run_secs` measures by an `EvaluatorConfig`: `repeat` times the mean of `number` executions, or of as many as take
    `min_repeat_ms`.
    """
    from tvm.s_tir.meta_schedule.runner import EvaluatorConfig

    number, repeat, min_repeat_ms = config

    def measure_laps(laps: int) -> list[float]:
        return run_secs(EvaluatorConfig(number=1, repeat=laps, min_repeat_ms=race.LAP_MS))

    # More laps than `repeat`, so that a record tells by their number that its measurement was short.
    if limit_s is not None and (laps := race.lost_laps(measure_laps, limit_s, at_least=max(2, repeat + 1))):
        return Timing(laps, short=True)
    return Timing(run_secs(EvaluatorConfig(number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)))
