"""Counts the devices that a tracker has for a run, and gives up if there is none for too long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tuning.engines.wire import tracker
from tuning.engines.wire.protocol import Remote
from tuning.engines.wire.tracker import TrackerError

from .sessions import POLL_S, gave_up, no_device

logger = logging.getLogger("tuneboard")
MAX_DEVICES = 32
"""How many devices one run uses at once."""


class RemoteDevices:
    """The devices with the run's key, counted in a thread.

    When there was none for `Remote.patience_s`, or the tracker didn't answer, `give_up` is called with the reason.
    """

    def __init__(self, remote: Remote, give_up: Callable[[str], object]) -> None:
        self._remote = remote
        self._give_up = give_up
        self._changed = threading.Condition()
        self._total = self._busy = 0
        self._missing_since = time.monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="devices", daemon=True).start()

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Wait until not all devices are busy with this run: requests queued at the tracker would block other users."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy < self._total)
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Stop counting."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(POLL_S):
            total, reason = self._count()
            with self._changed:
                if total != self._total:
                    logger.info("%s: %d device%s.", self._remote, total, "" if total == 1 else "s")
                self._total = min(total, MAX_DEVICES)
                self._changed.notify_all()
            if total:
                self._missing_since = time.monotonic()
            elif time.monotonic() > self._missing_since + self._remote.patience_s:
                self._give_up(gave_up(self._remote, reason))

    def _count(self) -> tuple[int, str]:
        """The number of devices, and why there is none."""
        try:
            return tracker.summary(self._remote.tracker).total(self._remote.key), no_device(self._remote)
        except TrackerError as error:
            return 0, str(error)
