"""The measuring process of a member, as the member's process handles it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Union

import msgspec

from tuning.engines.wire.pools import messages
from tuning.engines.wire.pools.messages import PoolEvent, PoolStart, Probe
from tuning.engines.wire.protocol import Candidate, Failed, Hold, encode
from tuning.lines import MIB, Lines, TooLong
from tuning.work import engine_process
from tuning.work.engine_process import Process
from tuning.work.warm_parent import ForkedEngine

MODULE = "tuning.engines.pool"
END_S = 10.0
READ_BYTES = 1 << 20
LONGEST_EVENT = 16 * MIB
"""Bytes. An answer has the text of an error at most, and goes through Redis."""
STDERR = 2
Control = Union[PoolStart, Candidate, Probe, Hold]


class Forked(msgspec.Struct, frozen=True):
    """A measuring process that the worker's warm parent forked, as the worker passes it on: a pid and file descriptors."""

    pid: int
    stdin: int
    status: int
    events: int

    def file_descriptors(self) -> tuple[int, ...]:
        """Those that the member's process must inherit."""
        return self.stdin, self.status, self.events


@contextmanager
def forked() -> Iterator[Forked | None]:
    """A process that has TVM loaded, to be passed on inside; None if this process keeps none to fork from. It ends with its last holder."""
    reader, writer = os.pipe()
    with ExitStack() as undo:
        undo.callback(os.close, reader)
        try:
            process = engine_process.forked(MODULE, STDERR, writer)
        finally:
            os.close(writer)
        if process:
            undo.callback(process.let_go)
        yield Forked(process.pid, *process.file_descriptors(), reader) if process else None


class Measuring:
    """Builds and measures until it is closed. `heard` is called on a thread of its own, with None as it ends."""

    def __init__(
        self, start: PoolStart, heard: Callable[[PoolEvent | None], None], process: Forked | None = None
    ) -> None:
        """Take the process over, or start one. Raises `OSError`."""
        self._scratch = tempfile.TemporaryDirectory(prefix="tuneboard-", ignore_cleanup_errors=True)
        self._lock, self._closing = threading.Lock(), threading.Lock()
        self._closed = False
        self._process: Process
        if process:
            self._process, reader = ForkedEngine(process.pid, process.stdin, process.status), process.events
        else:
            self._process, reader = engine_process.started(MODULE, STDERR)
        self._events = os.fdopen(reader, "rb", buffering=0)
        threading.Thread(target=self._read, args=(heard,), name="measuring", daemon=True).start()
        self.ask(msgspec.structs.replace(start, scratch=self._scratch.name))

    def ask(self, control: Control) -> None:
        """Send a control, unless the process is already gone."""
        assert self._process.stdin
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(encode(control))
            self._process.stdin.flush()

    def close(self) -> None:
        """End it with what it has started. Its stdin closing is enough, unless it hangs. Whoever comes second waits for the first."""
        assert self._process.stdin
        with self._closing:
            if self._closed:
                return
            with self._lock, contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            if isinstance(self._process, ForkedEngine):
                self._process.let_go()
            self._scratch.cleanup()
            self._closed = True

    def _read(self, heard: Callable[[PoolEvent | None], None]) -> None:
        with self._events:
            try:
                lines = Lines(LONGEST_EVENT)
                while data := os.read(self._events.fileno(), READ_BYTES):
                    for line in lines.add(data):
                        heard(messages.decode_event(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TooLong) as error:
                heard(Failed(f"The measuring process broke its protocol: {error}."))
        heard(None)
