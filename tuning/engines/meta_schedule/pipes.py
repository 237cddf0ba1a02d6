"""The engine's ends of its two pipes: events out, controls in."""

from __future__ import annotations

import logging
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec
import psutil

from tuning.engines.wire.protocol import (
    Event,
    Extend,
    Failed,
    Finished,
    KnownRecord,
    Start,
    WarmStart,
    decode_control,
    encode,
)

logger = logging.getLogger(__name__)


def exit_with_children() -> NoReturn:
    """End this process and all its descendants at once. The supervisor is gone, and nothing may keep a device busy."""
    for process in _descendants():
        with suppress(psutil.Error):
            # Python's resource tracker ends by itself, after it has removed our semaphores from /dev/shm.
            if "resource_tracker" not in " ".join(process.cmdline()):
                process.kill()
    os._exit(1)


def _descendants() -> list[psutil.Process]:
    """In a namespace whose /proc is another's, none can be found by number. There, all of them end with this process."""
    own = Path("/proc/self")
    return [] if own.exists() and own.readlink().name != str(os.getpid()) else psutil.Process().children(recursive=True)


class EventWriter:
    """Writes events to a pipe, one per line. Ends the process if nobody reads the pipe any more."""

    def __init__(self, fd: int) -> None:
        # A worker that inherited the pipe would hide the engine's end from the supervisor.
        os.set_inheritable(fd, False)  # noqa: FBT003  takes no keyword
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, event: Event) -> None:
        """Write the event, waiting while the pipe is full."""
        with self._lock:
            self._write(event)

    def exit_with(self, event: Finished | Failed) -> NoReturn:
        """Write the last event and end the process. Other threads can't write any more.

        This skips the interpreter's shutdown, which would wait for a thread that is in TVM.
        """
        with self._lock:
            self._write(event)
            os._exit(0 if isinstance(event, Finished) else 1)

    def _write(self, event: Event) -> None:
        line = memoryview(encode(event))
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except BrokenPipeError:
            exit_with_children()


class ControlReader:
    """Reads controls from stdin, and treats SIGTERM as Stop."""

    def __init__(self, on_stop: Callable[[], None], fd: int = 0) -> None:
        self.on_stop = on_stop
        """Called on another thread for each Stop or SIGTERM."""
        self.started_at = time.monotonic()
        """When `Start` was read, on the monotonic clock."""
        self._on_extend: Callable[[Extend], None] | None = None
        self._extension: Extend | None = None
        self._extend_lock = threading.Lock()
        self._warm_starts: queue.SimpleQueue[WarmStart] = queue.SimpleQueue()
        self._fd = fd
        self._buffer = b""
        self._signal_fd, wakeup_fd = os.pipe()
        os.set_blocking(wakeup_fd, False)
        # Python runs signal handlers on the main thread, which may be in TVM for minutes. The wakeup byte comes at once.
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(wakeup_fd)

    def read_start(self) -> Start | None:
        """Wait for the first control; None if the supervisor is gone before it. Raises `msgspec.MsgspecError`."""
        while b"\n" not in self._buffer:
            if not self._read():
                return None
        self.started_at = time.monotonic()
        line, self._buffer = self._buffer.split(b"\n", 1)
        control = decode_control(line)
        if not isinstance(control, Start):
            raise msgspec.ValidationError("The first control must be a start.")
        return control

    def watch(self) -> None:
        """Handle further controls on a thread of their own, and end the process when stdin closes."""
        threading.Thread(target=self._watch, name="controls", daemon=True).start()

    def warm_start_records(self) -> list[KnownRecord]:
        """Wait for `WarmStart` and return its records."""
        return self._warm_starts.get().records

    def watch_extensions(self, on_extend: Callable[[Extend], None]) -> None:
        """Call back for each later Extend, on another thread, and now for the last one that has arrived already."""
        with self._extend_lock:
            self._on_extend = on_extend
            if self._extension:
                on_extend(self._extension)

    def _watch(self) -> NoReturn:
        while True:
            *lines, self._buffer = self._buffer.split(b"\n")
            for line in lines:
                self._handle(line)
            readable, _, _ = select.select([self._fd, self._signal_fd], [], [])
            if self._signal_fd in readable:
                os.read(self._signal_fd, 64)
                self.on_stop()
            elif not self._read():
                exit_with_children()

    def _handle(self, line: bytes) -> None:
        try:
            control = decode_control(line)
        except msgspec.MsgspecError as error:
            logger.warning("Ignored an invalid control (%s): %r", error, line[:200])
            return
        if isinstance(control, Start):
            logger.warning("Ignored a second start.")
        elif isinstance(control, Extend):
            self._extend(control)
        elif isinstance(control, WarmStart):
            self._warm_starts.put(control)
        else:
            self.on_stop()

    def _extend(self, extension: Extend) -> None:
        with self._extend_lock:
            self._extension = extension
            if self._on_extend:
                self._on_extend(extension)

    def _read(self) -> bool:
        chunk = os.read(self._fd, 65536)
        self._buffer += chunk
        return bool(chunk)
