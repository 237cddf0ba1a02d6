"""An engine's process as its supervisor sees it: started, read, told to stop, gone with all its children."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec
import psutil
from django.conf import settings
from typing_extensions import Self

from .engines.protocol import Control, Event, Start, Stop, decode_event, encode

ENGINES = {"meta_schedule": "tuning.engines.meta_schedule"}
"""Engine name to the module that is run."""
READ_BYTES = 1 << 20


class BadEvent(Exception):
    """The engine sent something that is no event."""


class EngineProcess:
    """One engine, in a process group of its own. A context manager: at exit the whole group is gone."""

    def __init__(self, engine: str, start: Start, console_log: Path) -> None:
        module = ENGINES[engine]
        console_log.parent.mkdir(parents=True, exist_ok=True)
        reader, writer = os.pipe()
        command = [sys.executable, "-m", module, "--events-fd", str(writer)]
        try:
            with console_log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=[writer],
                    cwd=settings.BASE_DIR,
                    start_new_session=True,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        os.set_blocking(reader, False)
        self._events = reader
        self._rest = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(reader, selectors.EVENT_READ)
        self.ended = False
        """The engine closed its pipe: no event will come."""
        self.send(start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._selector.close()
        os.close(self._events)

    @property
    def pid(self) -> int:
        """Process and group id."""
        return self._process.pid

    def send(self, control: Control) -> None:
        """Tell the engine; one that is gone already isn't told."""
        stdin: IO[bytes] | None = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(encode(control))
            stdin.flush()
        except BrokenPipeError:
            pass

    def stop(self) -> None:
        """Ask the engine to end soon."""
        self.send(Stop())

    def read(self, timeout_s: float) -> list[Event]:
        """The events that arrived, after waiting for the first one at most this long.

        Raises `BadEvent` for a line that is none.
        """
        if self.ended or not self._selector.select(timeout_s):
            return []
        data = os.read(self._events, READ_BYTES)
        if not data:
            self.ended = True
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return list(_decoded(lines))

    def wait(self, timeout_s: float) -> int | None:
        """The exit status (negative: the signal that killed it), or None when it runs still."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the engine and everything that it started."""
        members = _session_of(self.pid)
        for pid in {self.pid, *members}:
            _kill(pid)
        self._process.wait()
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()


def _decoded(lines: list[bytes]) -> Iterator[Event]:
    for line in lines:
        try:
            yield decode_event(line)
        except msgspec.MsgspecError as error:
            raise BadEvent(f"the engine sent a line that is no event ({error}): {line[:200]!r}") from error


def _session_of(leader: int) -> list[int]:
    """Processes of the engine's session: a child may have made a process group of its own.

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
