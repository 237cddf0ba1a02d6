"""What a record log says, whatever its format. What a format doesn't hold is None, and never made up.

All structs are frozen. They aren't tracked by the garbage collector, which would otherwise walk over every trial of a batch.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

EngineName = Literal["auto_scheduler", "autotvm", "meta_schedule"]


class TensorInfo(msgspec.Struct, frozen=True, gc=False):
    """An argument of a task. `dtype` and `name` are None where the format has none."""

    name: str | None
    shape: tuple[int, ...]
    dtype: str | None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A workload on a target, as a log knows it."""

    key: str
    """Identifies engine, target and workload: the same in every log, and unique in one."""
    workload_hash: str
    """Identifies the workload on any target, in at most 64 characters. MetaSchedule: the structural hash; others: a digest."""
    engine: EngineName
    target: dict[str, Any] | None
    """As JSON, with its `host` inside. None if the log has none."""
    name: str | None = None
    args: tuple[TensorInfo, ...] = ()
    flop: float | None = None
    flop_derived: bool = False
    """FLOP was derived from the arguments; it isn't in the log."""
    weight: int | None = None
    workload: Any = None
    """As the format has it. AutoTVM: `[name, args, kwargs]`; auto_scheduler: the `workload_key`, decoded; MetaSchedule: the line of the
    workload file as text, or None."""


class Trial(msgspec.Struct, frozen=True, gc=False):
    """One line of a log: a candidate that was measured, or failed."""

    task: str
    """A `Task.key`."""
    number: int
    """From 1, in the order of lines."""
    line: int
    """From 1, blank lines and comments included."""
    file: str
    record: bytes
    """The native line without its end."""
    costs: tuple[float, ...] = ()
    """Seconds, one a repeat. Empty if the trial failed."""
    latency_s: float | None = None
    """The mean of the costs."""
    error_kind: str | None = None
    """None if the trial is valid, otherwise one of `tuning.logs.errors.KINDS`."""
    error_no: int | None = None
    """As the format has it: see `tuning.logs.errors.named`."""
    error: str | None = None
    """The text of the error, where it was recorded."""
    all_cost_s: float | None = None
    """Seconds that the whole measurement took."""
    timestamp: float | None = None
    """Seconds since 1970. Goes back within a batch, so it doesn't order trials."""


class BadLine(msgspec.Struct, frozen=True, gc=False):
    """A line that isn't a record, and why. Lines before and after it are kept."""

    file: str
    line: int
    reason: str


class Remark(msgspec.Struct, frozen=True, gc=False):
    """Something to say of a file: `version v0.7 is unknown; read as v0.6`. `line` is where it first applies, 0 for the whole file."""

    file: str
    text: str
    line: int = 0


class Session(msgspec.Struct, frozen=True, gc=False):
    """Several sessions may be appended to one log."""

    first: int
    """The number of its first trial."""
    started: float | None
    """The first trial's timestamp."""


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """A file that was left out, and why."""

    file: str
    reason: str
