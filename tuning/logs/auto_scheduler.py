"""auto_scheduler's (Ansor's) records: `{"i": [TASK, [[], STEPS]], "r": [costs, error_no, all_cost, timestamp], "v": "v0.6"}`.

TASK is told by its length rather than by the version, as converted files keep the one or the other:
`workload_key, target`, then hardware parameters (v0.3), target host (v0.4), layout rewrite (v0.5), input names (v0.6).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from tuning.records import older

from . import targets
from .neutral import Task, TensorInfo, Trial
from .reading import ANYTHING, RESULT, NotARecord, Reader, digest

VERSIONS = frozenset({"v0.2", "v0.3", "v0.4", "v0.5", "v0.6"})
NEWEST = "v0.6"


class State(msgspec.Struct, array_like=True, gc=False):
    stages: Raw
    """Always empty."""
    steps: Raw


class Input(msgspec.Struct, array_like=True, gc=False):
    task: Raw
    state: State


class Line(msgspec.Struct, gc=False):
    i: Input
    r: Raw
    v: str = ""


class AutoSchedulerReader(Reader):
    """Reads v0.2 to v0.6, and others as the newest of them."""

    engine = "auto_scheduler"
    longest_cost = 1e10
    decode = msgspec.json.Decoder(Line).decode
    _last = Raw(b"")
    """The task of the record before: that of most others of its batch, too. Comparing is faster than hashing."""
    _keys = ("", b"")

    def read(self, line: bytes, number: int, at: int) -> Trial:
        parsed = self.decode(line)
        if parsed.i.task != self._last:
            seen = bytes(parsed.i.task)
            self._keys = self._known.get(seen) or self.know(seen, _task(seen))
            self._last = parsed.i.task
        key, key_bytes = self._keys
        state = parsed.i.state
        older.check_steps(state.steps)
        if parsed.v not in VERSIONS:
            self.remark(_unknown(parsed.v), at)
        trial = self.trial(key, RESULT.decode(parsed.r), line, number, at)
        self.canonical += (key_bytes, b"[%b,%b]" % (state.stages, state.steps), parsed.r)
        return trial


def _unknown(version: str) -> str:
    return f"version {version} is unknown; read as {NEWEST}" if version else f"no version is recorded; read as {NEWEST}"


def _task(raw: bytes) -> Task:
    """The task of `[workload_key, target, …]`."""
    fields = ANYTHING.decode(raw)
    match fields:
        case [str(key), str(target), *rest]:
            host = next((each for each in rest[1:2] if isinstance(each, str)), "")
        case _:
            raise NotARecord("the task should begin with a workload key and a target, both strings")
    try:
        workload, resolved = ANYTHING.decode(key), targets.parsed(target, host)
        if host.strip() and resolved["host"] != targets.parsed(host):
            raise NotARecord("its target has a host, and the record names another one")
    except msgspec.DecodeError:
        raise NotARecord(f"the workload key {key[:60]!r} isn't JSON") from None
    except ValueError as error:
        raise NotARecord(str(error)) from None
    if not isinstance(workload, list) or not workload or not isinstance(workload[0], str):
        raise NotARecord("the workload key should be a list that begins with a function or a hash")
    older.check_arguments(workload)
    hashed = digest("auto_scheduler", workload)
    return Task(
        key=digest("auto_scheduler", workload, resolved),
        workload_hash=hashed,
        engine="auto_scheduler",
        target=resolved,
        name=None if is_hash(workload[0]) else workload[0],
        args=_args(workload),
        workload=workload,
    )


def is_hash(text: str) -> bool:
    """Whether a workload key begins with an MD5 digest of the computation instead of the name of a registered function."""
    return len(text) == 32 and not set(text) - set("0123456789abcdef")


def _args(workload: list[Any]) -> tuple[TensorInfo, ...]:
    """The shapes after a hash; the last is the output. From flat dimensions (TVM before 2021-08), shapes can't be told."""
    _, *shapes = workload
    if not is_hash(workload[0]) or not all(_is_shape(shape) for shape in shapes):
        return ()
    return tuple(TensorInfo(None, tuple(shape), None) for shape in shapes)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(extent) is int for extent in value)
