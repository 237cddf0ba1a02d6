"""Runs the real engine process, in place of a supervisor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
from typing_extensions import Self

from tuning.engines.wire import protocol
from tuning.engines.wire.protocol import Event, NetworkSpec, Options, Start, TrialMeasured

ROOT = Path(__file__).resolve().parents[3]
E = TypeVar("E", bound=Event)


def start(work_dir: Path, **changes: Any) -> Start:
    """A small run: random candidates for a matmul, in batches of 4."""
    given: dict[str, Any] = {
        "run_id": 1,
        "network": NetworkSpec("matmul", {"n": 64}),
        "target": "this",
        "options": options(),
        "trials_budget": 8,
        "trials_done": 0,
        "elapsed_s": 0.0,
        "work_dir": str(work_dir),
    }
    return Start(**given | changes)


def options(**changes: Any) -> Options:
    given: dict[str, Any] = {"strategy": "replay-trace", "trials_per_batch": 4, "seed": 1, "min_repeat_ms": 10}
    return Options(**given | changes)


class Engine:
    """A running engine. Leaving the context kills it."""

    def __init__(
        self,
        first: msgspec.Struct | bytes,
        console: Path,
        command: Sequence[str] = (sys.executable, "-m", "tuning.engines.meta_schedule"),
        env: Mapping[str, str] | None = None,
    ) -> None:
        read, write = os.pipe()
        self.console = console
        with console.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--events-fd", str(write)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[write],
                cwd=ROOT,
                start_new_session=True,
                env=env,
            )
        os.close(write)
        self.events = os.fdopen(read, "rb")
        self.seen: list[Event] = []
        self.write(first if isinstance(first, bytes) else protocol.encode(first))

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def stop(self) -> None:
        self.write(protocol.encode(protocol.Stop()))

    def __iter__(self) -> Iterator[Event]:
        for line in self.events:
            self.seen.append(protocol.decode_event(line))
            yield self.seen[-1]

    def until(self, kind: type[E], nth: int = 1) -> E:
        """Read up to the n-th event of this kind from now on."""
        for event in self:
            if isinstance(event, kind):
                nth -= 1
                if not nth:
                    return event
        raise AssertionError(f"The engine ended before that. Its console:\n{self.console.read_text()[-3000:]}")

    def to_the_end(self) -> Event:
        """Read all events and return the last one."""
        for _ in self:
            pass
        self.process.wait()
        return self.seen[-1]

    @property
    def trials(self) -> list[TrialMeasured]:
        return [event for event in self.seen if isinstance(event, TrialMeasured)]

    def family(self) -> list[psutil.Process]:
        """The engine and its descendants."""
        engine = psutil.Process(self.process.pid)
        return [engine, *engine.children(recursive=True)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.events.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdin
        self.process.stdin.close()


def lines(work_dir: Path) -> list[Any]:
    """The parsed record file."""
    return [json.loads(line) for line in (work_dir / "database_tuning_record.json").read_text().splitlines()]


def latencies(work_dir: Path) -> list[float | None]:
    """The latency of each trial in the record file; None if it failed."""
    means = [sum(run_secs) / len(run_secs) for _, (_, run_secs, *_) in lines(work_dir)]
    return [None if mean == 1e10 else mean for mean in means]
