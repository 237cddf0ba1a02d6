"""The engine's ends of both pipes: events out, controls in."""

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
from typing import NoReturn

import msgspec
import psutil

from tuning.engines.wire.protocol import Event, Extend, Failed, Finished, Start, WarmStart, decode_control, encode

logger = logging.getLogger(__name__)


def vanish() -> NoReturn:
    """End at once with all processes below this one: nobody listens, and nothing may keep a device busy."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            # Python's resource tracker ends by itself, after it has removed our semaphores from /dev/shm.
            if "resource_tracker" not in " ".join(process.cmdline()):
                process.kill()
    os._exit(1)


class Outbox:
    """Writes events, one line each. The process vanishes when nobody reads them any more."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)  # noqa: FBT003  takes no keyword
        # A worker that held the pipe open would hide the engine's end.
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, event: Event) -> None:
        """Write the event; waits while the pipe is full."""
        with self._lock:
            self._write(event)

    def close_with(self, event: Finished | Failed) -> NoReturn:
        """Write the last event and end the process, while other threads wait in vain.

        Without the interpreter's own ending, which would wait for a thread that is in TVM.
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
            vanish()


class Inbox:
    """Reads controls from stdin, and takes SIGTERM for Stop."""

    def __init__(self, on_stop: Callable[[], None], fd: int = 0) -> None:
        self.on_stop = on_stop
        """Called from another thread for each Stop or SIGTERM."""
        self._on_extend: Callable[[Extend], None] | None = None
        self._extension: Extend | None = None
        self._extending = threading.Lock()
        self.earlier: queue.SimpleQueue[WarmStart] = queue.SimpleQueue()
        self.began = time.monotonic()
        """When the start was read, on the monotonic clock."""
        self._fd = fd
        self._rest = b""
        self._signalled, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        # Python's handlers run on the main thread, which may be in TVM for minutes; the wake-up byte comes at once.
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(wakeup)

    def start(self) -> Start | None:
        """The first control; None when the supervisor went away before it. Raises `msgspec.MsgspecError`."""
        while b"\n" not in self._rest:
            if not self._read():
                return None
        self.began = time.monotonic()
        line, self._rest = self._rest.split(b"\n", 1)
        control = decode_control(line)
        if not isinstance(control, Start):
            raise msgspec.ValidationError("The first control must be a start.")
        return control

    def watch(self) -> None:
        """Heed later controls from now on, and vanish when stdin closes."""
        threading.Thread(target=self._watch, name="controls", daemon=True).start()

    def _watch(self) -> NoReturn:
        while True:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._heed(line)
            readable, _, _ = select.select([self._fd, self._signalled], [], [])
            if self._signalled in readable:
                os.read(self._signalled, 64)
                self.on_stop()
            elif not self._read():
                vanish()

    def _heed(self, line: bytes) -> None:
        try:
            control = decode_control(line)
        except msgspec.MsgspecError as error:
            logger.warning("Passed over a control that can't be read (%s): %r", error, line[:200])
            return
        if isinstance(control, Start):
            logger.warning("Passed over a second start")
        elif isinstance(control, Extend):
            self._extend(control)
        elif isinstance(control, WarmStart):
            self.earlier.put(control)
        else:
            self.on_stop()

    def hear_extensions(self, on_extend: Callable[[Extend], None]) -> None:
        """Call it, from another thread, for each Extend from now on, and now for the last one that came already."""
        with self._extending:
            self._on_extend = on_extend
            if self._extension:
                on_extend(self._extension)

    def _extend(self, extension: Extend) -> None:
        with self._extending:
            self._extension = extension
            if self._on_extend:
                self._on_extend(extension)

    def _read(self) -> bool:
        chunk = os.read(self._fd, 65536)
        self._rest += chunk
        return bool(chunk)
