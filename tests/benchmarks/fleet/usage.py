"""What the processes of a run on many machines use, by their roles; Redis and PostgreSQL included."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import Any

import msgspec
import psutil
import redis
from django.conf import settings
from django.db import connection

ROLES = {
    "tests.benchmarks.fleet.member": "members",
    "tuning.engines.pool": "devices",
    "tests.benchmarks.fleet.machines": "workers",
    "tests.benchmarks.fleet.web": "web",
    "tests.benchmarks.fleet.stand_in": "engine",
    "tuning.engines.meta_schedule": "engine",
}
"""By a word of the command line, what a process is. `devices` are measuring processes, `workers` the job around each member."""


class Usage(msgspec.Struct, frozen=True):
    """What was used so far."""

    at_s: float
    redis_commands: int
    redis_bytes: int
    """That it got and sent."""
    transactions: int
    """Of the whole database."""
    statements: int
    """Of the supervisor."""
    cpu_s: dict[str, float]
    """By role."""


class Statements:
    """Counts the statements of the connection that it is installed on."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, execute: Callable[..., Any], *args: Any) -> Any:
        """As Django calls it."""
        self.count += 1
        return execute(*args)


class Meter:
    """Reads what was used, also of the database's server, by this thread's connection."""

    def __init__(self, statements: Statements) -> None:
        self._redis: Any = redis.Redis.from_url(settings.REDIS_URL)
        self._statements = statements

    def read(self) -> Usage:
        """Until now."""
        commands = sum(int(one["calls"]) for one in self._redis.info("commandstats").values())
        traffic = self._redis.info("stats")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            )
            ((transactions,),) = cursor.fetchall()
            cursor.execute("SELECT pg_backend_pid()")
            ((backend,),) = cursor.fetchall()
        cpu_s = {role: sum(map(_cpu_s, ones)) for role, ones in _by_role().items()}
        server = self._redis.info("cpu")
        cpu_s["valkey"] = float(server["used_cpu_user"]) + float(server["used_cpu_sys"])
        postmaster = psutil.Process(int(backend)).parent()
        assert postmaster
        ended = postmaster.cpu_times()
        cpu_s["postgresql"] = sum(map(_cpu_s, [postmaster, *postmaster.children()]))
        cpu_s["postgresql"] += ended.children_user + ended.children_system
        sent = int(traffic["total_net_input_bytes"]) + int(traffic["total_net_output_bytes"])
        return Usage(time.monotonic(), commands, sent, transactions, self._statements.count, cpu_s)


def memory() -> dict[str, int]:
    """By role, bytes of the usual process of that kind; shared pages are counted in parts (PSS)."""
    return {role: round(median(map(_memory, ones))) for role, ones in _by_role().items()}


def _by_role() -> dict[str, list[psutil.Process]]:
    supervisor = psutil.Process()
    found: dict[str, list[psutil.Process]] = {"supervisor": [supervisor]}
    for process in supervisor.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if role := next((role for word, role in ROLES.items() if word in process.cmdline()), None):
                found.setdefault(role, []).append(process)
    return found


def _cpu_s(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _memory(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_full_info().pss)
    return 0
