"""The engine's end of the pipe that controls come by."""

from __future__ import annotations

import logging
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import msgspec

from tuning.engines.events import exit_with_children
from tuning.engines.wire.protocol import (
    Extend,
    Hold,
    Measured,
    Slots,
    Start,
    WarmStart,
    decode_control,
)

logger = logging.getLogger(__name__)


class ControlReader:
    """Reads controls from stdin, and treats SIGTERM as Stop."""

    def __init__(self, on_stop: Callable[[], None], fd: int = 0) -> None:
        self.on_stop = on_stop
        """Called on another thread for each Stop or SIGTERM."""
        self.started_at = time.monotonic()
        """When `Start` was read, on the monotonic clock."""
        self.on_hold: Callable[[bool], None] = lambda _held: None
        """Called on another thread for each Hold."""
        self._on_extend: Callable[[Extend], None] | None = None
        self._extension: Extend | None = None
        self._extend_lock = threading.Lock()
        self._warm_starts: queue.SimpleQueue[WarmStart] = queue.SimpleQueue()
        self.from_pool: queue.SimpleQueue[Measured | Slots] = queue.SimpleQueue()
        """What the machines of the run's pool answer and want."""
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

    def warm_start(self) -> WarmStart:
        """Wait for it."""
        return self._warm_starts.get()

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
        elif isinstance(control, (Measured, Slots)):
            self.from_pool.put(control)
        elif isinstance(control, Hold):
            self.on_hold(control.held)
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
