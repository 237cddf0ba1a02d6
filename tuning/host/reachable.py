"""Checks that the database and the broker answer, and waits until they do."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, connection
from redis import Redis, RedisError

DATABASE_OUTAGE = (OperationalError, InterfaceError)
"""What Django raises while the database is down. The second is psycopg2's for a connection that broke earlier."""
DISK_FULL = "The disk is full, so nothing can be saved. What is stored is safe. Free some space, then try again."
EXHAUSTED = "The site has as many files and connections open as it may. Nothing is lost: tuning continues. Try again in a moment."
PAUSE_S = 3.0


def database_trouble() -> str | None:
    """Why the database can't be reached, in one line; None if it can."""
    try:
        connection.ensure_connection()
    except Error as error:
        connection.close()
        return f"The database {_database_name()} can't be reached: {one_line(error)}"
    return None


def broker_trouble() -> str | None:
    """Why Redis or Valkey can't be reached, in one line; None if it can."""
    try:
        with Redis.from_url(settings.REDIS_URL, socket_connect_timeout=3, socket_timeout=3) as client:
            client.ping()
    except (RedisError, OSError, ValueError) as error:
        return f"The broker {_without_password(settings.REDIS_URL)} can't be reached: {one_line(error)}"
    return None


def wait_for(trouble: Callable[[], str | None], say: Callable[[str], None]) -> None:
    """Wait until there is no trouble, and say each new reason once."""
    said = None
    while found := trouble():
        if found != said:
            say(f"{found} Trying again every {PAUSE_S:.0f} s.")
        said = found
        time.sleep(PAUSE_S)
    if said:
        say("It answers now.")


def is_disk_full(error: BaseException | None) -> bool:
    """Whether that is why a file or the database couldn't be written."""
    if isinstance(error, Error):
        return "disk is full" in str(error) or os.strerror(errno.ENOSPC) in str(error)
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_exhausted(error: BaseException | None) -> bool:
    """Whether the process, or the machine, may not open another file or connection."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def one_line(error: BaseException) -> str:
    """An error's text as one line that ends with a period."""
    return " ".join(str(error).split()).rstrip(".") + "."


def _database_name() -> str:
    config = connection.settings_dict
    place = ":".join(str(config[key]) for key in ("HOST", "PORT") if config.get(key))
    return f"{config['NAME']} at {place}" if place else str(config["NAME"])


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
