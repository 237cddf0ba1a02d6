"""The sweep, again and again, through whatever happens to the database."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import Error, connection, transaction

from tuning.actions import sweeping
from tuning.host.reachable import one_line
from tuning.models import Run
from tuning.reads.device_status import SAMPLED_EVERY

EVERY_S = 5.0
"""A run whose worker died shows as interrupted after its lease and at most this long."""


class Sweeper:
    """Calls `sweeping.sweep`, and every few seconds `sweeping.sample_trackers`; reports a problem once, not at each try."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.due = 0.0
        self.sample_due = 0.0
        self.trouble: str | None = None
        self.usable_at = time.time()

    def tick(self) -> None:
        """Sweeps if it is due."""
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + EVERY_S
        try:
            if self._usable_all_along():
                sweeping.sweep()
                self._sample()
        except Error as error:
            connection.close()
            self._note(f"The sweep can't use the database: {one_line(error)} It goes on trying.")
        else:
            self._note(None)

    def _sample(self) -> None:
        if time.monotonic() >= self.sample_due:
            self.sample_due = time.monotonic() + SAMPLED_EVERY.total_seconds()
            sweeping.sample_trackers()

    def _usable_all_along(self) -> bool:
        """If the database was away or locked, or the machine slept, supervisors first get the time to renew their leases."""
        with transaction.atomic():  # waits for SQLite's lock
            Run.objects.exists()
        before, self.usable_at = self.usable_at, time.time()
        return self.usable_at - before < 2 * EVERY_S

    def _note(self, trouble: str | None) -> None:
        if trouble != self.trouble:
            self.say(trouble or "The sweep can use the database again.")
        self.trouble = trouble
