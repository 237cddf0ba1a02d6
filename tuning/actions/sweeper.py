"""Runs the sweep again and again, even if the database goes away for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import Error, connection, transaction

from tuning.actions import sweeping
from tuning.host.reachable import one_line
from tuning.models import Run
from tuning.reads.device_status import SAMPLED_EVERY

EVERY_S = 5.0
"""A run whose worker died is interrupted when its lease has run out, at most this much later."""


class Sweeper:
    """Calls `sweeping.sweep` and, every few seconds, `sweeping.sample_trackers`. It reports a problem once, not at each attempt."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.due = 0.0
        self.sample_due = 0.0
        self.trouble: str | None = None
        self.usable_at = time.time()

    def tick(self) -> None:
        """Sweep if it is time to."""
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + EVERY_S
        try:
            if self._has_been_usable():
                sweeping.sweep()
                self._sample()
        except Error as error:
            connection.close()
            self._note(f"The sweep can't use the database: {one_line(error)} It keeps trying.")
        else:
            self._note(None)

    def _sample(self) -> None:
        if time.monotonic() >= self.sample_due:
            self.sample_due = time.monotonic() + SAMPLED_EVERY.total_seconds()
            sweeping.sample_trackers()

    def _has_been_usable(self) -> bool:
        """After the database was down or locked, the machine slept, or its clock was set, supervisors first get time to renew their leases."""
        with transaction.atomic():  # waits for SQLite's lock
            Run.objects.exists()
        before, self.usable_at = self.usable_at, time.time()
        return abs(self.usable_at - before) < 2 * EVERY_S

    def _note(self, trouble: str | None) -> None:
        if trouble != self.trouble:
            self.say(trouble or "The sweep can use the database again.")
        self.trouble = trouble
