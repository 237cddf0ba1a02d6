"""MetaSchedule's JSONDatabase as anybody's TVM wrote it, 0.8 to 0.27: `[workload, [[insts, decisions], run_secs, target, args_info]]` a line.

A record tells neither its task's name nor why it failed nor when it was measured. Logs of the work directory may (`workdir`).
What a run of ours wrote is in `meta_schedule`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import msgspec
from msgspec import Raw

from tuning.records import traces
from tuning.records.parsing import without_infinities

from . import errors
from .meta_schedule import FAILED_RUN_SECS, WORKLOADS
from .neutral import Remark, Task, TensorInfo, Trial
from .reading import ANYTHING, Costs, NotARecord, Reader, digest, mean
from .workdir import Told
from .workloads import Workload

NULL = Raw(b"null")
UNKNOWN_HASH = "unknown-"
"""What stands in place of a structural hash begins with this."""


class Record(msgspec.Struct, array_like=True, gc=False):
    trace: traces.Trace
    run_secs: Costs | None = None
    target: Raw = NULL
    args_info: Raw = NULL


class Line(msgspec.Struct, array_like=True, gc=False):
    workload: int
    record: Record


class DatabaseReader(Reader):
    """Reads records. `workloads` is None where there's no workload file; `told` is what logs say, by workload index."""

    engine = "meta_schedule"
    longest_cost = FAILED_RUN_SECS
    decode = msgspec.json.Decoder(Line).decode

    def __init__(
        self,
        file: str,
        tasks: dict[str, Task],
        remarks: list[Remark],
        workloads: Sequence[Workload | None] | None = None,
        told: Mapping[int, Told] | None = None,
    ) -> None:
        super().__init__(file, tasks, remarks)
        self._workloads = workloads
        self._told = told or {}
        self._seen = dict.fromkeys(self._told, 0)
        self.tvm_version = next((each.tvm_version for each in workloads or () if each), None)

    def read(self, line: bytes, number: int, at: int) -> Trial:
        parsed = self.decode(line)
        index, record = parsed.workload, parsed.record
        seen = (b"%d" % index, bytes(record.target), bytes(record.args_info))
        key, key_bytes = self._known.get(seen) or self.know(seen, self._task(index, record))
        record.trace.check()
        trial = self._trial(key, record.run_secs or (), line, number, at)
        trace = b"[%b,%b]" % (record.trace.instructions, record.trace.decisions)
        self.canonical += (key_bytes, trace, b"%r" % (record.run_secs,))
        return self._with_logs(trial, index) if index in self._told else trial

    def _trial(self, key: str, run_secs: Any, line: bytes, number: int, at: int) -> Trial:
        latency_s = mean(run_secs)
        if latency_s is not None and max(run_secs) < FAILED_RUN_SECS:
            return Trial(key, number, at, self.file, line, run_secs, latency_s)
        failed = errors.FAILED if latency_s is not None or not run_secs else errors.NO_LATENCY
        return Trial(key, number, at, self.file, line, error_kind=failed.kind)

    def _with_logs(self, trial: Trial, index: int) -> Trial:
        """The trial with what the logs tell of it: when it was measured, and why it failed."""
        told, nth = self._told[index], self._seen[index]
        self._seen[index] = nth + 1
        entry = told.entry(nth)
        if entry is None:
            return trial
        self.session = max(self.session, entry.session)
        changes: dict[str, Any] = {"timestamp": entry.timestamp}
        if trial.error_kind and entry.error is not None:
            changes |= {"error": entry.error, "error_kind": entry.error_kind}
        return msgspec.structs.replace(trial, **changes)

    def _task(self, index: int, record: Record) -> Task:
        target, args = _target(record.target), tensors(ANYTHING.decode(record.args_info))
        workload = self._workload(index)
        if workload and args and workload.args and not _fit(workload.args, args):
            raise NotARecord(
                f"its arguments aren't those of workload {index} in {WORKLOADS}: the two files are of different databases"
            )
        unknown = "" if workload else _unknown_hash(index, record)
        told = self._told.get(index)
        return Task(
            key=digest("meta_schedule", workload.structural_hash if workload else unknown, target),
            workload_hash=workload.workload_hash if workload else unknown,
            engine="meta_schedule",
            target=target,
            name=told.name if told else None,
            args=(workload.args if workload else None) or args or (),
            flop=told.flop if told else None,
            weight=told.weight if told else None,
            workload=workload.line if workload else None,
        )

    def _workload(self, index: int) -> Workload | None:
        if self._workloads is None:
            self.remark(
                f"there is no {WORKLOADS}: which workloads the records are of isn't known, only which belong together"
            )
            return None
        if not 0 <= index < len(self._workloads):
            raise NotARecord(f"workload {index} isn't in {WORKLOADS}, which has {len(self._workloads)} lines")
        if (workload := self._workloads[index]) is None:
            raise NotARecord(f"the line of workload {index} in {WORKLOADS} can't be read")
        return workload


def latencies(line: bytes) -> tuple[int, Sequence[float]] | None:
    """A record's workload and costs in seconds, none if it failed. None for a line that isn't a record."""
    try:
        parsed = DatabaseReader.decode(line)
    except msgspec.DecodeError:
        finite = without_infinities(line)
        return latencies(finite) if finite != line else None
    except (ValueError, RecursionError):
        return None
    costs = parsed.record.run_secs or ()
    latency_s = mean(costs)
    failed = latency_s is None or max(costs) >= FAILED_RUN_SECS  # type: ignore[type-var, operator]
    return parsed.workload, () if failed else costs  # type: ignore[return-value]


def _target(raw: Raw) -> dict[str, Any] | None:
    target = ANYTHING.decode(raw)
    if target is not None and not (isinstance(target, dict) and isinstance(target.get("kind"), str)):
        raise NotARecord("the target should be null or an object with a `kind`")
    return target


def tensors(args_info: Any) -> tuple[TensorInfo, ...] | None:
    """`["TENSOR", dtype, shape]` of each argument. None if the record has none."""
    match args_info:
        case None:
            return None
        case list() if all(_is_tensor(arg) for arg in args_info):
            return tuple(TensorInfo(None, tuple(shape), dtype) for _, dtype, shape in args_info)
    raise NotARecord("args_info should be null or a list of tensors")


def _is_tensor(arg: Any) -> bool:
    match arg:
        case ["TENSOR", str(), list(shape)]:
            return all(type(extent) is int for extent in shape)
    return False


def _fit(workload: Sequence[TensorInfo], record: Sequence[TensorInfo]) -> bool:
    """Whether the arguments are the same tensors. Their shapes may differ: a schedule may pack weights, and its record has them packed."""
    return [(prod(each.shape), each.dtype) for each in workload] == [(prod(each.shape), each.dtype) for each in record]


def _unknown_hash(index: int, record: Record) -> str:
    """Of what a record alone tells: its index, arguments and the blocks that its trace names. Not a structural hash, and says so."""
    try:
        insts = ANYTHING.decode(record.trace.instructions)
        blocks = [attrs for name, _, attrs, *_ in insts if name in {"GetBlock", "GetSBlock"}]
    except (LookupError, TypeError, ValueError):
        blocks = []
    return UNKNOWN_HASH + digest(index, ANYTHING.decode(record.args_info), blocks)
