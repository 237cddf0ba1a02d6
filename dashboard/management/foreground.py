"""What commands share that do a job in the foreground."""

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
    """As wide as the terminal; a file or pipe gets lines that are wide enough for names of tasks."""
    return Console(file=stream, width=None if stream.isatty() else FILE_WIDTH, highlight=False)


class Wishes:
    """Ctrl-C stops the job as its button does; a second one, or SIGTERM, ends the command as a worker is ended."""

    def __init__(self) -> None:
        self.stop = False
        self.shutdown = threading.Event()
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(signal.SIGTERM, lambda *_: self.shutdown.set())

    def _on_interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        # Only noted: a handler may run in the middle of a query.
        if self.stop:
            self.shutdown.set()
        self.stop = True

    def carry_out(self, stop: Callable[[], object]) -> None:
        """Stop the job if that is wished; one that ended meanwhile needs none."""
        if self.stop:
            with contextlib.suppress(Conflict):
                stop()
