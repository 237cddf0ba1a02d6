"""AutoTVM's records, VTA's among them.

0.2: `{"input": [target, name, args, kwargs], "config": {"index", "code_hash", "entity"}, "result": […], "version": 0.2, "tvm_version"}`.
0.1: `{"i": [target, name, args, kwargs, workload, {"i": index, "t": template, "c": code hash, "e": entity}], "r": […], "v": 0.1}`.
A result is `[costs, error_no, all_cost, timestamp]`; a knob of an entity is `[name, "sp" | "re" | "an" | "ot", value]`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from tuning.records import older

from . import targets
from .flop import derived
from .neutral import Task, TensorInfo, Trial
from .reading import ANYTHING, RESULT, NotARecord, Reader, digest

ABSENT, OLD, NEW = Raw(b"null"), Raw(b"0.1"), Raw(b"0.2")


class Config(msgspec.Struct, gc=False):
    entity: Raw
    index: Raw = ABSENT
    code_hash: Raw = ABSENT


class Line(msgspec.Struct, gc=False):
    input: Raw
    config: Config
    result: Raw
    version: Raw = ABSENT
    tvm_version: str = ""


class OldConfig(msgspec.Struct, gc=False):
    e: Raw
    t: Raw = ABSENT
    i: Raw = ABSENT
    c: Raw = ABSENT


class OldInput(msgspec.Struct, array_like=True, gc=False):
    target: Raw
    name: Raw
    args: Raw
    kwargs: Raw
    workload: Raw
    config: OldConfig


class OldLine(msgspec.Struct, gc=False):
    i: OldInput
    r: Raw
    v: Raw = ABSENT


class AutoTVMReader(Reader):
    """Reads 0.1 and 0.2, also in one file, and other versions as the one that they look like."""

    engine = "autotvm"
    longest_cost = 1e9
    decode = msgspec.json.Decoder(Line).decode
    _last = Raw(b"")
    """As auto_scheduler's reader has it."""
    _keys = ("", b"")
    decode_old = msgspec.json.Decoder(OldLine).decode

    def read(self, line: bytes, number: int, at: int) -> Trial:
        if b'"input"' not in line:
            return self._read_old(line, number, at)
        parsed = self.decode(line)
        if parsed.input != self._last:
            seen = bytes(parsed.input)
            self._keys = self._known.get(seen) or self.know(seen, _task(ANYTHING.decode(seen)))
            self._last = parsed.input
        key, key_bytes = self._keys
        older.check_entity(parsed.config.entity)
        if parsed.version != NEW:
            self.remark(_unknown(parsed.version, "0.2"), at)
        if parsed.tvm_version:
            self.tvm_version = parsed.tvm_version
        trial = self.trial(key, RESULT.decode(parsed.result), line, number, at)
        self.canonical += (key_bytes, parsed.config.entity, parsed.config.index, parsed.result)
        return trial

    def _read_old(self, line: bytes, number: int, at: int) -> Trial:
        parsed = self.decode_old(line)
        given = parsed.i
        seen = (bytes(given.target), bytes(given.name), bytes(given.args), bytes(given.kwargs))
        key, key_bytes = self._known.get(seen) or self.know(seen, _task([ANYTHING.decode(part) for part in seen]))
        if parsed.v != OLD:
            self.remark(_unknown(parsed.v, "0.1"), at)
        config = given.config
        older.check_entity(config.e)
        trial = self.trial(key, RESULT.decode(parsed.r), line, number, at)
        self.canonical += (key_bytes, config.e, config.t, config.i, parsed.r)
        return trial


def _unknown(version: Raw, nearest: str) -> str:
    text = bytes(version).decode("utf-8", "replace")
    return (
        f"no version is recorded; read as {nearest}"
        if text == "null"
        else f"version {text} is unknown; read as {nearest}"
    )


def _task(fields: Any) -> Task:
    """The task of `[target, name, args, kwargs]`."""
    match fields:
        case [str() | dict() as target, str(name), list(args), *rest]:
            kwargs = rest[0] if rest else {}
        case _:
            raise NotARecord("the input should be a target, a task's name and its arguments")
    try:
        resolved = targets.parsed(target) if isinstance(target, str) else target
    except ValueError as error:
        raise NotARecord(str(error)) from None
    workload = [name, args, kwargs]
    older.check_arguments(workload)
    flop = derived(name, args)
    return Task(
        key=digest("autotvm", workload, resolved),
        workload_hash=digest("autotvm", workload),
        engine="autotvm",
        target=resolved,
        name=name,
        args=tuple(_tensors(args)),
        flop=flop,
        flop_derived=flop is not None,
        workload=workload,
    )


def _tensors(args: list[Any]) -> list[TensorInfo]:
    """All tensors, also those in lists: a concatenation's inputs are one argument."""
    found = []
    for arg in args:
        match arg:
            case ["TENSOR", list(shape), str(dtype), *_] if all(type(extent) is int for extent in shape):
                found.append(TensorInfo(None, tuple(shape), dtype))
            case list():
                found += _tensors(arg)
    return found
