"""What the readers of all formats share: a record's numbers into a trial, a known task for text that was seen before, the digest."""

from __future__ import annotations

import hashlib
from math import inf
from typing import Any

import msgspec

from . import errors
from .neutral import EngineName, Remark, Task, Trial

Costs = tuple[float | None, ...]


class NotARecord(ValueError):
    """The line is JSON, but no record of this format; the message says why."""


class Result(msgspec.Struct, array_like=True, gc=False):
    """`[costs, error_no, all_cost, timestamp]`, in seconds: what both auto_scheduler and AutoTVM write."""

    costs: Costs
    error_no: int
    all_cost: float | None
    timestamp: float | None


RESULT = msgspec.json.Decoder(Result)
ANYTHING = msgspec.json.Decoder()


def digest(*parts: Any) -> str:
    """40 hex digits of JSON, whatever the order of its keys."""
    canonical = msgspec.json.encode(parts, order="sorted")
    return hashlib.blake2b(canonical, digest_size=20).hexdigest()


def mean(costs: Costs) -> float | None:
    """None if there is no cost, or one isn't a usable number."""
    try:
        average = sum(costs) / len(costs)  # type: ignore[arg-type]
    except (TypeError, ZeroDivisionError):
        return None
    return average if 0 <= average < inf else None


class Reader:
    """Reads one file's lines. A format's reader adds `read`.

    `tasks` and `remarks` grow as lines are read. `canonical` has what distinguishes each record, for the digest of the log:
    whoever drives the reader empties it.
    """

    engine: EngineName
    longest_cost = inf
    """From here on, a cost stands for a failure."""

    def __init__(self, file: str, tasks: dict[str, Task], remarks: list[Remark]) -> None:
        self.file = file
        self.tasks = tasks
        self.remarks = remarks
        self.canonical: list[bytes | msgspec.Raw] = []
        self.tvm_version: str | None = None
        self.session = 0
        """Counted where other logs tell of sessions."""
        self._known: dict[bytes | tuple[bytes, ...], tuple[str, bytes]] = {}
        self._said: set[str] = set()

    def read(self, line: bytes, number: int, at: int) -> Trial:
        """The trial of a line. `number` is the trial's, `at` the line's. Raises `msgspec.MsgspecError` and `NotARecord`."""
        raise NotImplementedError

    def remark(self, text: str, at: int = 0) -> None:
        """Said once a file."""
        if text not in self._said:
            self._said.add(text)
            self.remarks.append(Remark(self.file, text, at))

    def know(self, seen: bytes | tuple[bytes, ...], task: Task) -> tuple[str, bytes]:
        """Remember the task of this text, so that it's parsed once. Returns its key, also as bytes for the digest."""
        self.tasks.setdefault(task.key, task)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        keys = self._known[seen] = task.key, task.key.encode()
        return keys

    def trial(self, key: str, result: Result, line: bytes, number: int, at: int) -> Trial:
        """The trial of a result of auto_scheduler or AutoTVM, of the task with this key."""
        costs: Any = result.costs
        moment = result.timestamp
        if moment is not None and not 0 < moment < LAST_MOMENT:
            moment = None
        if not result.error_no:
            latency_s = mean(costs)
            if latency_s is not None and latency_s < self.longest_cost:
                return Trial(key, number, at, self.file, line, costs, latency_s, None, 0, None, result.all_cost, moment)
        kind = errors.named(self.engine, result.error_no, moment).kind
        return Trial(key, number, at, self.file, line, (), None, kind, result.error_no, None, result.all_cost, moment)


MOST_KNOWN = 20_000
"""Texts of tasks that a reader remembers. A log has hundreds."""
LAST_MOMENT = 253402300800
"""Seconds since 1970 at the end of the year 9999. A later timestamp is none."""
