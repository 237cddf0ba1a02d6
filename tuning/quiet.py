"""Logs that stay readable while something is down."""

from __future__ import annotations

import logging
import time

EVERY_S = 60.0
REMEMBERED = 1000


class NoRepeats(logging.Filter):
    """Lets the same line through once a minute: what is tried every few seconds fails with the same words."""

    def __init__(self) -> None:
        super().__init__()
        self._shown_at: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is new enough to show."""
        key, now = (record.name, record.getMessage()), time.monotonic()
        if now - self._shown_at.get(key, -EVERY_S) < EVERY_S:
            return False
        self._shown_at.pop(key, None)
        self._shown_at[key] = now
        if len(self._shown_at) > REMEMBERED:
            del self._shown_at[next(iter(self._shown_at))]
        return True
