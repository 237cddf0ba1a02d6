"""The backend: Django expects it in a module called `base`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

import psycopg2
from django.db.backends.postgresql import base
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

RETRY_S = 0.1
KEPT_SHARE = 4
"""One in this many connections stays open. The others, which only a peak needs, are closed after use."""


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes its connections from a pool per process: `POOL` of its settings has the `size` and `timeout_s`.

    Django's own pool needs psycopg 3, and threads can't keep connections (`CONN_MAX_AGE`): under ASGI each request has a
    thread of its own. django-db-connection-pool wraps the same QueuePool, but gives up at once while the server
    restarts, and lets the pool's own errors through where Django and our 503 expect the driver's.
    """

    _pools: dict[str, QueuePool] = {}
    _lock = threading.Lock()
    _lent: PoolProxiedConnection | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        pool = self.settings_dict["POOL"]
        # Otherwise a host that drops packets would hold the request for minutes.
        conn_params.setdefault("connect_timeout", ceil(pool["timeout_s"]))
        try:
            self._lent = self._pool(conn_params).connect()
        except PoolTimeout as error:
            said = f"all {pool['size']} connections were in use for {pool['timeout_s']:g} s"
            raise psycopg2.OperationalError(said) from error
        return self._lent.driver_connection

    def _pool(self, conn_params: dict[str, Any]) -> QueuePool:
        size, timeout_s = (self.settings_dict["POOL"][name] for name in ("size", "timeout_s"))
        kept = ceil(size / KEPT_SHARE)
        with self._lock:
            if self.alias not in self._pools:
                self._pools[self.alias] = QueuePool(
                    partial(_connected, partial(super().get_new_connection, conn_params), timeout_s),
                    pool_size=kept,
                    max_overflow=size - kept,
                    timeout=timeout_s,
                    pre_ping=True,
                    use_lifo=True,
                    dialect=PGDialect_psycopg2(dbapi=psycopg2),  # type: ignore[no-untyped-call]
                )
            return self._pools[self.alias]

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        lent, self._lent = self._lent, None
        if lent is None:
            return
        if connection.closed:  # Broken: rolling it back would log a traceback.
            lent.invalidate()
        lent.close()  # Rolls back, and goes back to the pool.

    def close_pool(self) -> None:
        if pool := self._pools.pop(self.alias, None):
            pool.dispose()


def _connected(connect: Callable[[], Any], timeout_s: float) -> Any:
    """Retry for `timeout_s`: a server that restarts is back within seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return connect()
        except psycopg2.OperationalError:
            if time.monotonic() + RETRY_S > deadline:
                raise
        time.sleep(RETRY_S)


# A forked process must not use the connections of its parent.
os.register_at_fork(after_in_child=DatabaseWrapper._pools.clear)  # noqa: SLF001
