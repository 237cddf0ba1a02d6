"""An outage in the log: one line, and not again while it lasts."""

from __future__ import annotations

import logging
import time

from django.db import InterfaceError, OperationalError
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import TimeoutError as RedisSilent

AWAY = (OperationalError, InterfaceError, RedisAway, RedisSilent)
POOL = "psycopg.pool"
"""Its logger, which tells of each attempt to connect."""
SAY_AGAIN_S = 30.0


class OneLine(logging.Filter):
    """Shortens what is logged because database or Redis can't be reached: the traceback would tell nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be logged."""
        told = _told(record)
        if told is None:
            return True
        now, last = time.monotonic(), self._said.get(record.name)
        if last is not None and now < last + SAY_AGAIN_S:
            return False
        self._said[record.name] = now
        record.msg, record.args = "%s", (" ".join(told.split()),)
        record.exc_info = record.exc_text = None
        return True


def _told(record: logging.LogRecord) -> str | None:
    """What a record says of an outage; None when it is of something else."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, AWAY):
        return f"{record.getMessage()}: {str(error).strip() or type(error).__name__}"
    return record.getMessage() if record.name == POOL else None
