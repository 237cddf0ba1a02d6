"""An engine's process as its supervisor handles it: start, read events, stop, kill with all its children."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Union

import msgspec
import psutil
from typing_extensions import Self

from tuning import beneath
from tuning.engines.wire.engines import ENGINES as KNOWN
from tuning.engines.wire.engines import META_SCHEDULE
from tuning.engines.wire.legacy import LegacyStart
from tuning.engines.wire.protocol import Control, Event, Start, Stop, decode_event, encode
from tuning.engines.wire.question import Reach
from tuning.host import interpreters, surroundings
from tuning.lines import Lines, TooLong

from .warm_parent import ForkedEngine, WarmParent

ENGINES = {engine.name: engine.module for engine in KNOWN.values()}
"""By engine: the module to run."""
WARM: dict[str, WarmParent] = {}
"""By module: the warm parents of this process, if it keeps any."""
Process = Union["subprocess.Popen[bytes]", ForkedEngine]
AnyStart = Union[Start, LegacyStart]
Way = Callable[[int, int], "Process | None"]
"""Starts an engine, given the file descriptors of its console and of the pipe for its events; None if it can't right now."""
READ_BYTES = 1 << 20


class BadEvent(Exception):
    """The engine sent something that isn't an event."""


class EngineProcess:
    """An engine in its own session. A context manager: at exit, all processes of the session are gone."""

    def __init__(self, engine: str, start: AnyStart, console_log: Path, interpreter: Path | None = None) -> None:
        """Start it, under another interpreter if one is given. Raises `OSError`."""
        console_log.parent.mkdir(parents=True, exist_ok=True)
        Path(start.work_dir).mkdir(parents=True, exist_ok=True)
        module = ENGINES[engine]
        with beneath.open_file(console_log.parent, console_log.name, "ab") as log:
            self._scratch = tempfile.TemporaryDirectory(prefix="tuneboard-", ignore_cleanup_errors=True)
            start = msgspec.structs.replace(start, scratch=self._scratch.name)
            ways = [partial(_elsewhere, interpreter, module, start)] if interpreter else _ways(module)
            self._process, reader = _started(ways, log.fileno())
        os.set_blocking(reader, False)
        self._events = reader
        self._lines = Lines()
        self._selector = selectors.DefaultSelector()
        self._selector.register(reader, selectors.EVENT_READ)
        self._sending = threading.Lock()
        self.ended = False
        """The engine closed its pipe: there will be no more events."""
        self.send(start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._scratch.cleanup()
        self._selector.close()
        os.close(self._events)

    @property
    def pid(self) -> int:
        """Process and session id."""
        return self._process.pid

    def send(self, control: Control | LegacyStart) -> None:
        """Send a control, unless the engine is already gone. Thread-safe."""
        stdin = self._process.stdin
        assert stdin is not None
        with self._sending, contextlib.suppress(BrokenPipeError):
            stdin.write(encode(control))
            stdin.flush()

    def stop(self) -> None:
        """Ask the engine to stop soon."""
        self.send(Stop())

    def read(self, timeout_s: float) -> list[Event]:
        """The events that have arrived; waits up to this long for the first one.

        Raises `BadEvent` for a line that isn't an event, or is longer than any.
        """
        if self.ended or not self._selector.select(timeout_s):
            return []
        data = os.read(self._events, READ_BYTES)
        if not data:
            self.ended = True
            return []
        try:
            return list(_decoded(self._lines.add(data)))
        except TooLong as error:
            raise BadEvent(f"the engine sent a line of {error}") from error

    def wait(self, timeout_s: float) -> int | None:
        """The exit status (negative: the signal that killed it), or None if it still runs or its status isn't known."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the engine and everything that it started."""
        members = _session_of(self.pid)
        for pid in {self.pid, *members}:
            _kill(pid)
        with contextlib.suppress(BrokenPipeError), self._process:
            pass


def keep_warm(kind: str) -> None:
    """From now on, keep a warm parent for each engine, for targets of this kind: this process is going to tune."""
    if not sys.platform.startswith("linux"):  # It needs SOCK_SEQPACKET and waitid.
        return
    for name, module in ENGINES.items():
        if not KNOWN[name].legacy:
            WARM[module] = WarmParent(module, kind)
            WARM[module].start()


def forked(module: str, console: int, events: int) -> ForkedEngine | None:
    """A process of another module, from the warm parent of the engine that loads what it needs; None if there is none."""
    parent = WARM.get(ENGINES[META_SCHEDULE])
    return parent.fork(console, events, module) if parent else None


def started(module: str, console: int) -> tuple[Process, int]:
    """A process of another module that has to load what it needs, and the pipe of its events. Raises `OSError`."""
    return _started([partial(_cold, module)], console)


def _ways(module: str) -> list[Way]:
    """To start an engine of this interpreter, the fastest first."""
    warm: list[Way] = [WARM[module].fork] if module in WARM else []
    return [*warm, partial(_cold, module)]


def _started(ways: Sequence[Way], console: int) -> tuple[Process, int]:
    """Start an engine; return it and the pipe of its events. Raises `OSError`."""
    for start in ways:
        reader, writer = os.pipe()
        _widen(reader)
        try:
            process = start(console, writer)
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        if process:
            return process, reader
        os.close(reader)
    raise AssertionError("a cold start gives a process or raises")


def _widen(pipe: int) -> None:
    """Have it hold what one `read` takes: it is read ten times a second, and 64 KiB are 15 candidates of a run on many machines."""
    with contextlib.suppress(AttributeError, OSError):  # Only Linux can, and a user may have only so much of it.
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, READ_BYTES)


def _cold(module: str, console: int, events: int) -> Process:
    return _process([sys.executable, "-m", module], surroundings.folder(), surroundings.environment(), console, events)


def _elsewhere(python: Path, module: str, start: AnyStart, console: int, events: int) -> Process:
    """Under another interpreter, which another process confines and then becomes. Older TVMs write where they run."""
    reach = Reach(start.network.paths(), (start.work_dir,), network=start.remote is not None)
    assert start.scratch
    environment = {**interpreters.environment(), "TMPDIR": start.scratch}
    return _process(interpreters.command(python, module, reach), Path(start.scratch), environment, console, events)


def _process(command: list[str], folder: Path, environment: dict[str, str], console: int, events: int) -> Process:
    return subprocess.Popen(
        [*command, "--events-fd", str(events)],
        stdin=subprocess.PIPE,
        stdout=console,
        stderr=console,
        pass_fds=[events],
        cwd=folder,
        start_new_session=True,
        env=environment,
    )


def _decoded(lines: list[bytes]) -> Iterator[Event]:
    for line in lines:
        try:
            yield decode_event(line)
        except msgspec.MsgspecError as error:
            raise BadEvent(f"the engine sent a line that isn't an event ({error}): {line[:200]!r}") from error


def _session_of(leader: int) -> list[int]:
    """The processes of the engine's session; a process group isn't enough, since a child may have made its own.

    Without Python's resource tracker, which ends by itself once it has removed the engine's semaphores.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(process.pid) == leader and "resource_tracker" not in " ".join(process.cmdline()):
                found.append(process.pid)
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
