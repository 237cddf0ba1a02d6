"""MetaSchedule's records for TVM: what TVM gets of one has passed `tuning.records`, and nothing of its target or its JSON's text is kept.

The function that a record schedules is the caller's own, of the same structural hash, wherever it has one. `function_of` reads the record's.
"""

from __future__ import annotations

import base64
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import tvm
from tvm.s_tir import meta_schedule as ms

from tuning.engines import saved
from tuning.engines.wire import target_fields
from tuning.engines.wire.errors import Refused, in_one_line
from tuning.engines.wire.target_fields import TargetRefused
from tuning.logs.meta_schedule import LOST, RECORDS, WORKLOADS, workload_hashes
from tuning.logs.workloads import printed_hash
from tuning.records import RecordRefused, functions, traces
from tuning.records.parsing import decode


class Checked(NamedTuple):
    """A record whose trace was checked."""

    workload: list[str]
    """`[structural hash, base64]`, which wasn't."""
    trace: list[Any]
    run_secs: list[float] | None
    target: dict[str, Any]
    args_info: list[Any] | None

    @property
    def workload_hash(self) -> str:
        """The structural hash as TVM prints it."""
        return printed_hash(self.workload[0])

    def on(self, workload: Any) -> Any:
        """TVM's `TuningRecord` for this workload. It has no target: TVM would prepare LLVM as the record's says."""
        return ms.database.TuningRecord.from_json([self.trace, self.run_secs, None, self.args_info], workload)


class _Record(msgspec.Struct, array_like=True):
    trace: traces.Trace
    run_secs: list[float] | None = None
    target: dict[str, Any] | None = None
    args_info: list[tuple[Literal["TENSOR"], str, list[int]]] | None = None


_RECORD = msgspec.json.Decoder(tuple[tuple[str, str], _Record])
_LINE = msgspec.json.Decoder(tuple[int, _Record])


def check(text: str) -> Checked:
    """A record as in `TrialMeasured.record`. Raises `RecordRefused`."""
    workload, record = decode(_RECORD, text.encode(), "it")
    record.trace.check()
    trace = [msgspec.json.decode(part) for part in (record.trace.instructions, record.trace.decisions)]
    args_info = None if record.args_info is None else [list(arg) for arg in record.args_info]
    return Checked(list(workload), trace, record.run_secs, record.target or {}, args_info)


def function_of(record: Checked) -> Any:
    """The module with the record's own function. Raises `RecordRefused`, and `Refused` if TVM can't read it."""
    nodes = _nodes(record.workload[1])
    try:
        mod = tvm.ir.load_json(saved.checked_json(nodes))
    except Exception as error:
        raise Refused(f"TVM can't read its workload: {in_one_line(error)}") from error
    if str(ms.utils.shash2hex(mod)) != record.workload_hash:
        raise RecordRefused("its workload isn't the function that its structural hash names")
    return mod


def _nodes(encoded: str) -> saved.Saved:
    """The checked nodes of a workload. Raises `RecordRefused` and `Refused`."""
    functions.check_module(encoded)
    nodes = saved.parsed(base64.b64decode(encoded)[functions.HEADER :])
    saved.check_references(nodes)
    return nodes


def checked_target(target: Mapping[str, Any]) -> dict[str, Any]:
    """A record's target as TVM may have it, without the features that TVM derives by itself. Raises `TargetRefused`."""
    plain = {
        name: value for name, value in target.items() if not (name.startswith("feature.") and value in (True, False))
    }
    checked = target_fields.checked(plain)
    assert isinstance(checked, dict)
    return checked


def lines_of(mods: Iterable[Any]) -> dict[str, str]:
    """Lines of a workload file for these functions, by their structural hash as that file has it."""
    written = [ms.database.Workload(mod).as_json() for mod in mods]
    return {str(shash): f'["{shash}","{encoded}"]' for shash, encoded in written}


def keep_usable(work_dir: Path, own: Mapping[str, str]) -> list[str]:
    """Replace what TVM must not read in both record files; return a message for each record that was left out.

    `own` is as `lines_of` returns it. Its functions replace those of the file that TVM must not read; records of other functions are left out.
    """
    workloads, records = work_dir / WORKLOADS, work_dir / RECORDS
    if not (own and workloads.exists() and records.exists()):
        return []
    hashes = workload_hashes(work_dir)
    stand_in = next(iter(own.values()))
    written = zip(hashes, workloads.read_text().splitlines(), strict=True)
    _replace(
        workloads,
        [line if shash in own and _is_harmless(line) else own.get(shash, stand_in) for shash, line in written],
    )
    usable = frozenset(line for line, shash in enumerate(hashes) if shash in own)
    reasons = {}
    lines = records.read_text().splitlines()
    for place, line in enumerate(lines):
        if line != LOST and (reason := _why_unusable(line, usable)):
            lines[place], reasons[place + 1] = LOST, reason
    _replace(records, lines)
    return [f"{RECORDS}: left out line {line}, which can't be used: {reason}" for line, reason in reasons.items()]


def _is_harmless(line: str) -> bool:
    try:
        _nodes(msgspec.json.decode(line, type=tuple[str, str])[1])
    except (RecordRefused, Refused, msgspec.MsgspecError):
        return False
    return True


def _why_unusable(line: str, usable: Container[int]) -> str | None:
    try:
        workload, record = decode(_LINE, line.encode(), "it")
        record.trace.check()
        if record.target is not None:
            checked_target(record.target)
    except (RecordRefused, TargetRefused) as refused:
        return str(refused)
    return None if workload in usable else "its function isn't one of this run"


def _replace(path: Path, lines: Sequence[str]) -> None:
    """Write the file anew, unless it has these lines already."""
    text = "".join(f"{line}\n" for line in lines)
    if path.read_text() != text:
        new = path.with_name(f"{path.name}-checked")
        new.write_text(text)
        new.replace(path)
