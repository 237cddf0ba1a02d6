"""The log while database or Redis is away: one line, not a flood of tracebacks."""

from __future__ import annotations

import logging
from io import StringIO
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection
from django.test import Client
from redis.exceptions import ConnectionError as RedisAway

from dashboard.http import outages
from dashboard.http.outages import OneLine


@pytest.fixture
def log() -> Any:
    logger = logging.getLogger("test of outages")
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(OneLine())
    logger.addHandler(handler)
    logger.propagate = False

    def say(error: Exception) -> str:
        logger.error("Can't %s", "count", exc_info=error)
        return stream.getvalue()

    yield say
    logger.removeHandler(handler)


@pytest.mark.parametrize("error", [OperationalError("no route\n\tto host"), RedisAway("no route to host")])
def test_it_says_an_outage_in_one_line_and_once(log: Any, error: Exception) -> None:
    assert log(error) == log(error) == "Can't count: no route to host\n"


def test_it_says_it_again_after_a_while(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log(RedisAway("away"))
    monkeypatch.setattr(outages, "SAY_AGAIN_S", -1.0)
    assert log(RedisAway("away")).count("\n") == 2


def test_attempts_of_the_pool_are_an_outage_too(caplog: pytest.LogCaptureFixture) -> None:
    filtered, logger = OneLine(), logging.getLogger("psycopg.pool")
    for _ in range(2):
        logger.warning("error connecting in %r: %s", "pool-1", "no route\n\tto host")
    told = [record.getMessage() for record in caplog.records if filtered.filter(record)]
    assert told == ["error connecting in 'pool-1': no route to host"]


def test_it_leaves_other_errors_their_traceback(log: Any) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 // 0
    log(raised.value)
    assert log(raised.value).count("Traceback") == 2


def test_it_is_what_the_site_logs_with(settings: Any) -> None:
    assert settings.LOGGING["handlers"]["console"]["filters"] == ["outages"]


@pytest.mark.django_db
def test_health_says_that_the_database_is_away(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise DatabaseError("10.0.0.7 refused")

    monkeypatch.setattr(connection, "cursor", away)
    response = client.get("/healthz")
    assert response.status_code == 503
    assert response.json() == {"status": "unavailable", "reason": "The database can't be reached."}


@pytest.mark.django_db
def test_a_page_says_that_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise OperationalError("10.0.0.7 refused")

    client = Client(raise_request_exception=False)
    client.cookies["tuneboard_session"] = "x" * 32
    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", away)
    response = client.get("/runs/")
    assert response.status_code == 503
    assert response.content.startswith(b"The database can't be reached")
