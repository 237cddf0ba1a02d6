"""When what happened to each candidate, as the processes of a run noted it. They share one monotonic clock, that of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = "TUNEBOARD_BENCH_STAMPS"
"""The environment variable with the folder of the files."""
What = Literal["sent", "taken", "measured", "answered", "announced"]


class Stamp(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Something that happened to a candidate.

    `sent`: the supervisor has it from the engine; `taken`, `measured`: a member has it, and its answer; `answered`: the engine gets the answer;
    `announced`: a watcher has heard of the trial.
    """

    what: What
    id: str
    """The candidate's; the number of the trial for `announced`."""
    at_s: float
    member: int = 0
    took_s: float = 0.0
    """How long the device says that it measured."""


class Stamps:
    """Appends to a file of this process's own; whatever kills it, what it noted is there."""

    def __init__(self) -> None:
        path = Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, what: What, id_: str, member: int = 0, took_s: float = 0.0) -> None:
        """Note that it happens now."""
        os.write(self._file, msgspec.json.encode(Stamp(what, id_, time.monotonic(), member, took_s)) + b"\n")


def read(folder: Path) -> Iterator[Stamp]:
    """What all processes have noted, in no order."""
    for path in folder.glob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            yield msgspec.json.decode(line, type=Stamp)
