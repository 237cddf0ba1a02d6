"""The web process pools connections to PostgreSQL, and no request holds one for long."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import OperationalError, connection

from dashboard.database.base import DatabaseWrapper
from dashboard.http.downloads import Streamed
from tests.live import LiveSite, environment
from tests.threads import until
from tuning.models import Run

RUNS = "/runs"
needs_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server to connect to")


@pytest.fixture
def pooled(transactional_db: None) -> Iterator[DatabaseWrapper]:
    """The test database through a web process's pool of at most two connections."""
    database = DatabaseWrapper({**connection.settings_dict, "POOL": {"size": 2, "timeout_s": 0.5}}, "pooled")
    yield database
    database.close_pool()


def in_a_request(database: Any, query: Callable[[Any], Any]) -> Any:
    """Runs the query in a thread of its own, as each request does; returns its result or its error."""
    found: list[Any] = []

    def serve() -> None:
        own = database.copy()
        try:
            with own.cursor() as cursor:
                found.append(query(cursor))
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


def terminate(*backends: int) -> None:
    with connection.cursor() as cursor:
        for one in backends:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [one])


def concurrent_backends(database: Any, depth: int) -> Any:
    """The backends of `depth` requests, each of which begins while the previous one holds its connection."""
    return in_a_request(
        database, lambda cursor: [backend(cursor), *(concurrent_backends(database, depth - 1) if depth > 1 else [])]
    )


def test_django_uses_psycopg2_though_psycopg_3_is_installed(tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("__version__ = '3.3.9'\n")
    script = "import django; django.setup(); from django.db import connection; print(connection.Database.__name__)"
    env = environment(tmp_path / "var", "postgres://nobody@localhost/nothing") | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=settings.BASE_DIR, check=True, capture_output=True, text=True
    )
    assert done.stdout == "psycopg2\n"


@needs_postgresql
def test_successive_requests_share_a_connection(pooled: Any) -> None:
    assert len({in_a_request(pooled, backend) for _ in range(10)}) == 1


@needs_postgresql
def test_requests_survive_broken_idle_connections(pooled: Any) -> None:
    broken = concurrent_backends(pooled, 2)
    terminate(*broken)
    backends = concurrent_backends(pooled, 2)
    assert len({*broken, *backends}) == 4


@needs_postgresql
def test_a_request_that_finds_all_connections_in_use_fails_after_a_while(pooled: Any) -> None:
    def nested(depth: int) -> Any:
        return lambda cursor: in_a_request(pooled, nested(depth - 1)) if depth else backend(cursor)

    assert isinstance(in_a_request(pooled, nested(1)), int)
    refused = in_a_request(pooled, nested(2))
    assert isinstance(refused, OperationalError)
    assert str(refused) == "all 2 connections were in use for 0.5 s"
    assert isinstance(in_a_request(pooled, backend), int)


@needs_postgresql
def test_a_request_waits_for_a_connection_in_use(pooled: Any) -> None:
    pooled.settings_dict["POOL"] = {"size": 1, "timeout_s": 60}
    asking, found = threading.Event(), []

    def wait() -> None:
        asking.set()
        found.append(in_a_request(pooled, backend))

    waiting = threading.Thread(target=wait)

    def hold(cursor: Any) -> int:
        waiting.start()
        assert asking.wait(30)
        waiting.join(0.2)
        assert found == [], "there is no second connection"
        return backend(cursor)

    held = in_a_request(pooled, hold)
    waiting.join(30)
    assert found == [held]


@needs_postgresql
def test_connections_that_break_during_a_request_are_replaced(pooled: Any, caplog: pytest.LogCaptureFixture) -> None:
    def break_it(cursor: Any) -> None:
        terminate(backend(cursor))
        backend(cursor)

    assert [type(in_a_request(pooled, break_it)) for _ in range(3)] == [OperationalError] * 3
    assert caplog.messages == [], "the request's own error says it all"
    assert len(concurrent_backends(pooled, 2)) == 2


@needs_postgresql
def test_a_request_waits_for_a_server_that_restarts(pooled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, refusals = psycopg2.connect, [psycopg2.OperationalError("the database system is starting up")] * 3

    def refuse_at_first(**params: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return connect(**params)

    monkeypatch.setattr(psycopg2, "connect", refuse_at_first)
    assert isinstance(in_a_request(pooled, backend), int)
    assert refusals == []


@needs_postgresql
def test_requests_fail_while_the_server_is_down(pooled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_params: Any) -> Any:
        raise psycopg2.OperationalError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(psycopg2, "connect", refuse)
        refused = [in_a_request(pooled, backend) for _ in range(3)]
    assert [type(one) for one in refused] == [OperationalError] * 3
    assert len(concurrent_backends(pooled, 2)) == 2, "refused requests hold no connection"


@needs_postgresql
def test_a_transaction_left_open_ends_with_its_request(pooled: Any) -> None:
    def leave_open(cursor: Any) -> int:
        cursor.db.set_autocommit(False)
        cursor.execute("CREATE TABLE left_open ()")
        return backend(cursor)

    def look(cursor: Any) -> tuple[int, bool]:
        return backend(cursor), cursor.db.connection.autocommit

    def table(cursor: Any) -> Any:
        cursor.execute("SELECT to_regclass('left_open')")
        return cursor.fetchone()[0]

    first = in_a_request(pooled, leave_open)
    assert in_a_request(pooled, look) == (first, True)
    assert in_a_request(pooled, table) is None


@needs_postgresql
def test_connections_that_only_a_peak_needed_are_closed(pooled: Any) -> None:
    peak = concurrent_backends(pooled, 2)

    def left() -> set[int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", [peak])
            return {pid for (pid,) in cursor.fetchall()}

    until(lambda: len(left()) == 1)  # The server ends the other one once it sees that it was closed.
    assert left() == {in_a_request(pooled, backend)}


FORKING = """
import os
import django
django.setup()
from django.db import connection
def backend():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    connection.close()
    return pid
print(backend(), flush=True)
if os.fork() == 0:
    print(backend(), flush=True)
    os._exit(0)
os.wait()
print(backend(), flush=True)
"""


@needs_postgresql
def test_a_forked_process_leaves_its_parents_connections_alone(database_env: dict[str, str]) -> None:
    env = {**database_env, "TUNEBOARD_CONNECTIONS": "2"}
    command = [sys.executable, "-c", FORKING]
    output = subprocess.run(command, env=env, cwd=settings.BASE_DIR, check=True, capture_output=True, text=True).stdout
    before, child, after = output.split()
    assert before == after != child


@needs_postgresql
def test_the_site_reuses_a_connection(live_site: LiveSite) -> None:
    token = live_site.token()
    assert live_site.api("GET", RUNS, token=token)[0] == 200
    with closing(psycopg2.connect(live_site.env["DATABASE_URL"])) as server, server.cursor() as cursor:
        cursor.execute("SELECT now()")
        before = cursor.fetchone()
        server.commit()
        live_site.api("GET", RUNS, token=token)
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_start < %(before)s AND query_start > %(before)s",
            {"before": before},
        )
        assert cursor.fetchall()


@pytest.mark.django_db(transaction=True)
async def test_a_download_holds_no_connection_between_pieces() -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(2):
            yield str(Run.objects.count()).encode()

    connected = sync_to_async(lambda: connection.connection is not None, thread_sensitive=True)
    taken = [(piece, await connected()) async for piece in Streamed(pieces())]
    assert taken == [(b"0", False), (b"0", False)]
