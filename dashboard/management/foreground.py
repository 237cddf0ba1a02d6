"""Shared by commands that run a job in the foreground."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TextIO

from rich.console import Console

from tuning.validation import Conflict

POLL_S = 0.5
FILE_WIDTH = 140


def console(stream: TextIO) -> Console:
    """A console as wide as the terminal; for a file or pipe, wide enough for task names."""
    return Console(file=stream, width=None if stream.isatty() else FILE_WIDTH, highlight=False)


class Interrupts:
    """Ctrl-C stops the job like the Stop button; a second one, or SIGTERM, ends the command like a worker."""

    def __init__(self) -> None:
        self.stop = False
        self.shutdown = threading.Event()
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(signal.SIGTERM, lambda *_: self.shutdown.set())

    def _on_interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        # Only sets flags: the handler may run in the middle of a query.
        if self.stop:
            self.shutdown.set()
        self.stop = True

    def handle(self, stop: Callable[[], object]) -> None:
        """Stop the job if asked to, unless it has ended already."""
        if self.stop:
            with contextlib.suppress(Conflict):
                stop()
