"""The engine's ends of its two pipes: events out, controls in. `wire.protocol` has the messages, which are plain JSON here."""

import json
import logging
import os
import queue
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NoReturn, Optional

logger = logging.getLogger("tuneboard")
Message = Dict[str, Any]
"""A message of `wire.protocol`. Its tag is in `type`."""


def exit_with_children(status: int) -> NoReturn:
    """End this process and its session at once. Nothing that it started may keep a device busy."""
    own = os.getpid()
    if os.getsid(0) == own:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != own:
                _kill_member(int(entry.name), own)
    os._exit(status)


def _kill_member(pid: int, session: int) -> None:
    try:
        if os.getsid(pid) == session:
            os.kill(pid, signal.SIGKILL)
    except OSError:  # It has ended, or is somebody else's.
        pass


class EventWriter:
    """Writes events to a pipe, one per line. Ends the process if nobody reads the pipe any more."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)  # noqa: FBT003  takes no keyword
        self._fd = fd
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()

    def hold(self, held: bool) -> None:  # noqa: FBT001  the value of a control
        """Have whoever sends an event wait, so that nothing is measured after the trial in hand, or let them go on."""
        if held:
            self._open.clear()
        else:
            self._open.set()

    def send(self, kind: str, **fields: Any) -> None:
        """Write the event, waiting while the pipe is full or held."""
        self._open.wait()
        with self._lock:
            self._write(kind, fields)

    def exit_with(self, kind: str, **fields: Any) -> NoReturn:
        """Write `finished` or `failed` and end the process. Other threads can't write any more.

        This skips the interpreter's shutdown, which would wait for a thread that is in TVM.
        """
        with self._lock:
            sys.stdout.flush()
            self._write(kind, fields)
            exit_with_children(0 if kind == "finished" else 1)

    def _write(self, kind: str, fields: Message) -> None:
        line = memoryview(json.dumps(dict(fields, type=kind), allow_nan=False).encode() + b"\n")
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except BrokenPipeError:
            exit_with_children(1)


class ControlReader:
    """Reads controls from stdin, and treats SIGTERM as a stop."""

    def __init__(self, on_stop: Callable[[], Any], fd: int = 0) -> None:
        self.on_stop = on_stop
        """Called on another thread for each stop."""
        self.started_at = time.monotonic()
        """When the start was read, on the monotonic clock."""
        self.on_hold: Callable[[bool], None] = lambda _held: None
        """Called on another thread when the supervisor says so."""
        self._on_extend: Optional[Callable[[Message], None]] = None
        self._extension: Optional[Message] = None
        self._lock = threading.Lock()
        self._warm_starts: queue.Queue[Message] = queue.Queue()
        self._handlers: Dict[str, Callable[[Message], Any]] = {
            "stop": lambda _: self.on_stop(),
            "extend": self._extend,
            "hold": lambda control: self.on_hold(bool(control["held"])),
            "warm_start": self._warm_starts.put,
        }
        self._fd = fd
        self._buffer = b""
        self._signal_fd, wakeup_fd = os.pipe()
        os.set_blocking(wakeup_fd, False)
        # Python runs signal handlers on the main thread, which may be in TVM for minutes. The wakeup byte comes at once.
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGINT, lambda *_: None)  # Raised inside TVM, KeyboardInterrupt would be lost or a crash.
        signal.set_wakeup_fd(wakeup_fd)

    def read_start(self) -> Optional[Message]:
        """Wait for the first control; None if the supervisor is gone before it. Raises `ValueError`."""
        while b"\n" not in self._buffer:
            if not self._read():
                return None
        self.started_at = time.monotonic()
        line, self._buffer = self._buffer.split(b"\n", 1)
        start = json.loads(line.decode())
        if not isinstance(start, dict) or start.get("type") != "start":
            raise ValueError("The first control must be a start.")
        return start

    def watch(self) -> None:
        """Handle further controls on a thread of their own, and end the process when stdin closes."""
        threading.Thread(target=self._watch, name="controls", daemon=True).start()

    def warm_start_records(self) -> List[Message]:
        """Wait for a warm start and return its records."""
        return list(self._warm_starts.get()["records"])

    def watch_extensions(self, on_extend: Callable[[Message], None]) -> None:
        """Call back for each later extension, on another thread, and now for the last one that has arrived already."""
        with self._lock:
            self._on_extend = on_extend
            if self._extension:
                on_extend(self._extension)

    def _watch(self) -> NoReturn:
        while True:
            lines = self._buffer.split(b"\n")
            self._buffer = lines.pop()
            for line in lines:
                self._handle(line)
            readable, _, _ = select.select([self._fd, self._signal_fd], [], [])
            if self._signal_fd in readable:
                os.read(self._signal_fd, 64)
                self.on_stop()
            elif not self._read():
                exit_with_children(1)

    def _handle(self, line: bytes) -> None:
        try:
            control = json.loads(line.decode())
            handle = self._handlers[control["type"]]
        except (ValueError, TypeError, LookupError) as error:
            logger.warning("Ignored an invalid control (%s): %r", error, line[:200])
            return
        handle(control)

    def _extend(self, extension: Message) -> None:
        with self._lock:
            self._extension = extension
            if self._on_extend:
                self._on_extend(extension)

    def _read(self) -> bool:
        chunk = os.read(self._fd, 65536)
        self._buffer += chunk
        return bool(chunk)
