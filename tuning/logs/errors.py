"""Error numbers of auto_scheduler and AutoTVM, what TVM means by them, and the kinds that they are here.

Both enumerations are the same, `MeasureErrorNo`. MetaSchedule's records don't tell why a trial failed.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

ErrorKind = Literal[
    "instantiation",
    "build",
    "build_timeout",
    "run",
    "run_timeout",
    "wrong_answer",
    "unknown",
    "not_recorded",
    "no_latency",
]
KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
"""`build`, `build_timeout`, `run` and `run_timeout` are those of Tuneboard's own engine, too."""

FLEET_ERROR_UNTIL = 1535414400
"""2018-08-28: until then, 6 was AutoTVM's number of a fleet error."""


class MeasureError(msgspec.Struct, frozen=True):
    """An error number. `name` is TVM's own, `meaning` a sentence."""

    name: str
    kind: ErrorKind
    meaning: str


NO_ERROR = 0
MEASURE_ERRORS = {
    1: MeasureError(
        "INSTANTIATION_ERROR", "instantiation", "The schedule couldn't be applied to the task: its steps or knobs are invalid there."
    ),
    2: MeasureError("COMPILE_HOST", "build", "The code couldn't be compiled for the host (`tvm.build` failed)."),
    3: MeasureError("COMPILE_DEVICE", "build", "The code couldn't be compiled or loaded on the device (for example OpenCL's or CUDA's own compiler failed)."),
    4: MeasureError("RUNTIME_DEVICE", "run", "The program failed on the device while it was measured."),
    5: MeasureError("WRONG_ANSWER", "wrong_answer", "The program ran, but its output differs from the reference."),
    6: MeasureError("BUILD_TIMEOUT", "build_timeout", "The build took longer than its time limit."),
    7: MeasureError("RUN_TIMEOUT", "run_timeout", "The measurement took longer than its time limit."),
    8: MeasureError("UNKNOWN_ERROR", "unknown", "TVM itself didn't know what went wrong."),
}  # fmt: skip
FLEET_ERROR = MeasureError("FLEET_ERROR", "run", "A device of the fleet failed (TVM before 2018-08-28).")
UNNAMED: MeasureError = MeasureError("UNNAMED", "unknown", "TVM has no name for this number.")
FAILED = MeasureError("FAILED", "not_recorded", "The trial failed. MetaSchedule's records don't tell why.")
NO_LATENCY = MeasureError(
    "NO_LATENCY", "no_latency", "The record tells of no error, yet it has no usable time: none at all, NaN, infinite or negative."
)  # fmt: skip


def named(engine: str, number: int, timestamp: float | None = None) -> MeasureError:
    """What an error number means. 0 is a trial without an error and without a latency."""
    if number == NO_ERROR:
        return NO_LATENCY
    if engine == "autotvm" and number == 6 and timestamp is not None and timestamp < FLEET_ERROR_UNTIL:
        return FLEET_ERROR
    return MEASURE_ERRORS.get(number, UNNAMED)
