"""What the log leaves out: the details and repetitions of an outage, and the query strings of sockets."""

from __future__ import annotations

import logging
import time

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tuning.host.reachable import DATABASE_OUTAGE, is_disk_full, is_exhausted
from tuning.wording import printable

OUTAGE = (*DATABASE_OUTAGE, RedisConnectionError, RedisTimeoutError)
REPEAT_S = 30.0


class Plain(logging.Formatter):
    """Escapes control characters: names and errors may have some. Lines of a traceback stay lines."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line itself, in which a newline would begin an entry that nobody wrote."""
        return super().formatMessage(record).replace("\n", "\\n")


class OneLine(logging.Filter):
    """Drops the traceback of an outage, or of a lack of space or files, and repetitions by the same logger: it explains nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, OUTAGE) and not is_disk_full(error) and not is_exhausted(error):
            return True
        now, last = time.monotonic(), self._logged_at.get(record.name)
        if last is not None and now < last + REPEAT_S:
            return False
        self._logged_at[record.name] = now
        reason = " ".join(str(error).split()) or type(error).__name__
        record.msg, record.args = "%s", (f"{' '.join(record.getMessage().split())}: {reason}",)
        record.exc_info = record.exc_text = None
        return True


class NoQueries(logging.Filter):
    """Cuts the query string from the addresses that uvicorn logs: it may contain a token that somebody put there."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "uvicorn.error" and isinstance(record.args, tuple):
            record.args = tuple(arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args)
        return True
