"""An engine's end of the pipe that its events leave by."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec
import psutil

from tuning.engines.wire.protocol import Failed, Finished, encode


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
        self._open = threading.Event()
        self._open.set()

    def hold(self, held: bool) -> None:  # noqa: FBT001  the value of a control
        """Have whoever sends an event wait, so that nothing is measured after the trial in hand, or let them go on."""
        if held:
            self._open.clear()
        else:
            self._open.set()

    def send(self, event: msgspec.Struct) -> None:
        """Write the event, waiting while the pipe is full or held."""
        self._open.wait()
        with self._lock:
            self._write(event)

    def exit_with(self, event: Finished | Failed, *, before: Iterable[msgspec.Struct] = ()) -> NoReturn:
        """Write the last event, and others `before` it, and end the process. Other threads can't write any more.

        This skips the interpreter's shutdown, which would wait for a thread that is in TVM.
        """
        with self._lock:
            for one in (*before, event):
                self._write(one)
            os._exit(0 if isinstance(event, Finished) else 1)

    def _write(self, event: msgspec.Struct) -> None:
        line = memoryview(encode(event))
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except BrokenPipeError:
            exit_with_children()
