"""Runs the real engine process, in place of a supervisor.

In `tests/tuning/engines` engines are forked from a process that has TVM loaded, as those of a site's runs are. `COLD` is the
command of one that starts without it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import psutil
from typing_extensions import Self

from tuning.engines.wire import protocol
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Event, NetworkSpec, Start, TrialMeasured
from tuning.work.warm_parent import ForkedEngine, WarmParent

ROOT = Path(__file__).resolve().parents[3]
E = TypeVar("E", bound=Event)
COLD = (sys.executable, "-m", "tuning.engines.meta_schedule")
WARM: list[WarmParent] = []
"""What engines are forked from. The fixture `warm_engines` keeps one."""


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
    given: dict[str, Any] = {
        "strategy": "replay-trace",
        "trials_per_batch": 4,
        "seed": 1,
        "min_repeat_ms": 10,
        "confirm": 0,
    }
    return Options(**given | changes)


class Forked:
    """A forked engine, with what tests use of `subprocess.Popen`."""

    def __init__(self, engine: ForkedEngine) -> None:
        self.pid = engine.pid
        self.stdin = engine.stdin
        self.returncode: int | None = None
        self._engine = engine

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.001)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        if self.returncode is None:
            self.returncode = self._engine.wait(timeout)
            self._engine._status.close()  # Its pid may be used again.
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Engine:
    """A running engine. Leaving the context kills it."""

    def __init__(
        self,
        first: msgspec.Struct | bytes,
        console: Path,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        read, write = os.pipe()
        self.console = console
        with console.open("ab") as log:
            self.process: subprocess.Popen[bytes] | Forked = (
                _cold(command or COLD, log, write, env) if command or not WARM else _warm(log, write)
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


def _cold(
    command: Sequence[str], log: IO[bytes], events: int, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*command, "--events-fd", str(events)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        pass_fds=[events],
        cwd=ROOT,
        start_new_session=True,
        env=env,
    )


def _warm(log: IO[bytes], events: int) -> Forked:
    engine = WARM[0].fork(log.fileno(), events)
    assert engine, "the parent of engines doesn't answer"
    return Forked(engine)


def lines(work_dir: Path) -> list[Any]:
    """The parsed record file."""
    return [json.loads(line) for line in (work_dir / "database_tuning_record.json").read_text().splitlines()]


def latencies(work_dir: Path) -> list[float | None]:
    """The latency of each trial in the record file; None if it failed."""
    means = [sum(run_secs) / len(run_secs) for _, (_, run_secs, *_) in lines(work_dir)]
    return [None if mean == 1e10 else mean for mean in means]
