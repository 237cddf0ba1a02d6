"""Shared by commands that run a job in the foreground."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, TextIO

from django.conf import settings
from django.db import connection
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tuning.host.machine import identity
from tuning.host.machine.ours import working_for
from tuning.host.reachable import DATABASE_OUTAGE
from tuning.models import Machine, Queued
from tuning.validation import Conflict
from tuning.wording import printable

POLL_S = 0.5
FILE_WIDTH = 140


class PlainConsole(Console):
    """Shows text as it is: no markup, and control characters escaped, since names and errors are other people's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Every text on its way to the terminal comes by here; the console's own controls are marked as such."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def console(stream: TextIO) -> Console:
    """A console as wide as the terminal; for a file or pipe, wide enough for task names."""
    return PlainConsole(file=stream, width=None if stream.isatty() else FILE_WIDTH)


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


def this_machine() -> Machine | None:
    """The entry of the machine that the command runs on; None if that was never part of the site."""
    return Machine.objects.filter(key=identity.key()).first()


def follow(
    job: Callable[[], object],
    interrupts: Interrupts,
    stop: Callable[[], object],
    show: Callable[[], object],
    goes_on: Callable[[], bool] = lambda: False,
) -> None:
    """Do the job in a thread, and `show` how far it is meanwhile; on Ctrl-C, `stop` it. `goes_on`: somebody else does it."""
    worker = threading.Thread(target=_closing, args=(job,), name="job")
    worker.start()
    while worker.is_alive() or _may_go_on(goes_on):
        try:
            interrupts.handle(stop)
            show()
        except DATABASE_OUTAGE:
            connection.close()  # Whoever does the job reports it and tries again.
        if worker.is_alive():
            worker.join(POLL_S)
        else:
            time.sleep(POLL_S)


def _may_go_on(goes_on: Callable[[], bool]) -> bool:
    """While the database can't be reached, nobody knows better."""
    try:
        return goes_on()
    except DATABASE_OUTAGE:
        connection.close()
        return True


def give_up(row: Queued, stop: Callable[[], object]) -> None:
    """End what is still queued when the command ends: nobody follows it any more."""
    row.refresh_from_db()
    if row.status == row.QUEUED:
        with contextlib.suppress(Conflict):
            stop()


def _closing(job: Callable[[], object]) -> None:
    """Do it in a thread, whose connection ends with it."""
    try:
        with working_for(settings.VAR):  # To a site that runs on this machine, that is its own work, not others'.
            job()
    finally:
        connection.close()
