"""What the site runs on and what is going on in this process, as measured now."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import django
from django.conf import settings
from django.db import connection
from redis import Redis, RedisError

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.question import InForce
from tuning.host import admission, sandbox
from tuning.host.private import is_open
from tuning.host.reachable import DATABASE_OUTAGE, one_line
from tuning.validation import Busy

UNREACHABLE = "can't be reached"


class Place(NamedTuple):
    """One kind of thing that is limited: how many there are now, and the most for one user and in all."""

    what: str
    now: int
    waiting: int
    of_one: int
    in_all: int


class Folder(NamedTuple):
    """The data folder: its permissions in octal, and the bytes that are free on its disk."""

    path: Path
    mode: str
    is_open: bool
    free: int
    of: int


def versions() -> dict[str, str]:
    """Of what the site is made of, by name."""
    return {
        "Python": platform.python_version(),
        "Apache TVM": version("apache-tvm"),
        "Django": django.get_version(),
        "Database": _database(),
        "Broker": _broker(),
        "System": f"{platform.system()} {platform.release()}",
    }


def places() -> list[Place]:
    """What this web process limits."""
    kinds = {
        "Models, targets and schedules being read": admission.inspections,
        "Uploads": admission.uploads,
        "Live pages": admission.sockets,
    }
    return [Place(what, *one.counts(), *one.limits()) for what, one in kinds.items()]


def folder() -> Folder:
    """The state of TUNEBOARD_VAR."""
    disk = shutil.disk_usage(settings.VAR)
    mode = f"{stat.S_IMODE(settings.VAR.stat().st_mode):04o}"
    return Folder(settings.VAR, mode, is_open(settings.VAR), disk.free, disk.total)


def folder_bytes() -> int:
    """What the files in it take on the disk."""
    total = 0
    for parent, _, files in os.walk(settings.VAR):
        for name in files:
            try:
                total += Path(parent, name).lstat().st_blocks * 512
            except FileNotFoundError:  # Runs come and go.
                continue
    return total


def _database() -> str:
    sqlite = connection.vendor == "sqlite"
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT sqlite_version()" if sqlite else "SHOW server_version")
            return f"{'SQLite' if sqlite else 'PostgreSQL'} {cursor.fetchone()[0]}"
    except DATABASE_OUTAGE as error:
        return f"{UNREACHABLE}: {one_line(error)}"


def _broker() -> str:
    try:
        with Redis.from_url(settings.REDIS_URL, socket_connect_timeout=3, socket_timeout=3) as client:
            said = client.info("server")
    except (RedisError, OSError) as error:
        return f"{UNREACHABLE}: {one_line(error)}"
    valkey = said.get("valkey_version")
    return f"Valkey {valkey}" if valkey else f"Redis {said['redis_version']}"


def in_force() -> InForce | str:
    """What confines processes that read uploads, or why that isn't known."""
    try:
        return sandbox.in_force()
    except (Refused, Busy, OSError) as error:
        return str(error)
