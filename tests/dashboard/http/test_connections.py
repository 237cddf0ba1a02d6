"""The web process pools connections to PostgreSQL, and no request holds one for long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection

from dashboard.http.downloads import Streamed
from dashboard.settings import DATABASE_POOL
from tests.live import LiveSite
from tuning.models import Run

RUNS = "/runs"
needs_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server to connect to")


@pytest.fixture
def pooled(transactional_db: None) -> Iterator[Any]:
    """The tests' database with a pool of at most two connections, as in the web process."""
    database: Any = connection.copy("pooled")
    database.settings_dict["OPTIONS"]["pool"] = {**DATABASE_POOL, "max_size": 2, "timeout": 0.5}
    yield database
    database.close_pool()


def in_a_request(database: Any, deed: Callable[[Any], Any]) -> Any:
    """The result of a function with a cursor, run in a thread of its own like a request."""
    found: list[Any] = []

    def serve() -> None:
        own = database.copy()
        try:
            with own.cursor() as cursor:
                found.append(deed(cursor))
        except OperationalError as error:
            found.append(error)
        finally:
            own.close()

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    return found[0]


def backend(cursor: Any) -> int:
    cursor.execute("SELECT pg_backend_pid()")
    return int(cursor.fetchone()[0])


@needs_postgresql
def test_consecutive_requests_share_a_connection(pooled: Any) -> None:
    assert len({in_a_request(pooled, backend) for _ in range(10)}) <= 2


@needs_postgresql
def test_a_broken_connection_fails_no_request(pooled: Any) -> None:
    first = in_a_request(pooled, backend)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
    # Either of the pool's two connections may come first.
    backends = [in_a_request(pooled, backend) for _ in range(3)]
    assert all(isinstance(one, int) and one != first for one in backends)


@needs_postgresql
def test_a_request_waits_for_a_connection_and_then_fails(pooled: Any) -> None:
    def nested(depth: int) -> Any:
        return lambda cursor: in_a_request(pooled, nested(depth - 1)) if depth else backend(cursor)

    assert isinstance(in_a_request(pooled, nested(1)), int)
    refused = in_a_request(pooled, nested(2))
    assert isinstance(refused, OperationalError)
    assert "couldn't get a connection after 0.50 sec" in str(refused)
    assert isinstance(in_a_request(pooled, backend), int)


@needs_postgresql
def test_the_site_reuses_connections(live_site: LiveSite) -> None:
    token = live_site.token()
    assert live_site.api("GET", RUNS, token=token)[0] == 200
    with psycopg.connect(live_site.env["DATABASE_URL"], autocommit=True) as server:
        before = server.execute("SELECT now()").fetchone()
        assert before
        live_site.api("GET", RUNS, token=token)
        kept = server.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_start < %(before)s AND query_start > %(before)s",
            {"before": before[0]},
        )
        assert kept.fetchall()


@pytest.mark.django_db(transaction=True)
async def test_a_download_holds_no_connection_while_sending() -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(2):
            yield str(Run.objects.count()).encode()

    connected = sync_to_async(lambda: connection.connection is not None, thread_sensitive=True)
    taken = [(piece, await connected()) async for piece in Streamed(pieces())]
    assert taken == [(b"0", False), (b"0", False)]
