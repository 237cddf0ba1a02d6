"""A pool of psycopg2 connections that outlive a request.

Written by hand because no library does all of this with psycopg2: wait a limited time for a free connection *and* for
a server that is restarting, and fail with the driver's own OperationalError, which users see as a 503. psycopg2.pool
neither waits nor checks connections, and keeps only its minimum open. SQLAlchemy's QueuePool, on which
django-db-connection-pool is built, gives up at once when the server is restarting, raises an error of its own when
exhausted, and makes the web process a fifth larger (21 MB).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE
from psycopg2.extensions import connection as Connection  # noqa: N812 - psycopg2 writes its classes in lower case

RETRY_S = 0.1
IDLE_S = 600.0
"""Connections idle for longer are closed: after a peak the server gets its slots back."""


class Idle(NamedTuple):
    connection: Connection
    since: float


class Pool:
    """At most `size` connections. The last one given back is lent first, so that surplus ones stay idle."""

    def __init__(self, size: int, timeout_s: float) -> None:
        self.size = size
        self.timeout_s = timeout_s
        self._free = threading.BoundedSemaphore(size)
        self._idle: deque[Idle] = deque()
        self._closed = False

    def take(self, connect: Callable[[], Connection]) -> Connection:
        """A connection that answers; `connect` opens one if none is idle.

        Raises `psycopg2.OperationalError` if none is free, or the server can't be reached, for `timeout_s`.
        """
        deadline = time.monotonic() + self.timeout_s
        if not self._free.acquire(timeout=self.timeout_s):
            raise psycopg2.OperationalError(f"all {self.size} connections were in use for {self.timeout_s:g} s")
        try:
            return self._reused() or _connected(connect, deadline)
        except BaseException:
            self._free.release()
            raise

    def give_back(self, connection: Connection) -> None:
        try:
            if _reset(connection) and not self._closed:
                self._idle.append(Idle(connection, time.monotonic()))
            else:
                connection.close()
            self._close_surplus()
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the idle connections now, the lent ones when they are given back."""
        self._closed = True
        while idle := self._pop():
            idle.connection.close()

    def _reused(self) -> Connection | None:
        while idle := self._pop():
            if _answers(idle.connection):
                return idle.connection
            idle.connection.close()
        return None

    def _pop(self) -> Idle | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _close_surplus(self) -> None:
        oldest = time.monotonic() - IDLE_S
        try:
            while self._idle[0].since < oldest:
                self._idle.popleft().connection.close()
        except IndexError:
            return


def _connected(connect: Callable[[], Connection], deadline: float) -> Connection:
    """Keep trying until the deadline: a server that restarts is back within seconds."""
    while True:
        try:
            return connect()
        except psycopg2.OperationalError:
            if time.monotonic() + RETRY_S > deadline:
                raise
        time.sleep(RETRY_S)


def _answers(connection: Connection) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except psycopg2.Error:
        return False
    return True


def _reset(connection: Connection) -> bool:
    """Whether the connection can be lent again. A transaction left open is rolled back."""
    try:
        if connection.get_transaction_status() != TRANSACTION_STATUS_IDLE:
            connection.rollback()
        connection.autocommit = True
    except psycopg2.Error:
        return False
    return not connection.closed
