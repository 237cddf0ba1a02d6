"""While the database or Redis is down: one line in the log, and a 503 for users."""

from __future__ import annotations

import logging
from io import StringIO
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test import Client
from redis.exceptions import ConnectionError as RedisConnectionError

from dashboard.http import logs
from dashboard.http.logs import NoQueries, OneLine, Plain


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


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("no route\n\tto host"),
        InterfaceError("no route to host"),
        RedisConnectionError("no route to host"),
    ],
)
def test_an_outage_is_logged_once_and_in_one_line(log: Any, error: Exception) -> None:
    assert log(error) == log(error) == "Can't count: no route to host\n"


def test_an_outage_is_logged_again_after_a_while(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log(RedisConnectionError("away"))
    monkeypatch.setattr(logs, "REPEAT_S", -1.0)
    assert log(RedisConnectionError("away")).count("\n") == 2


def test_other_errors_keep_their_traceback(log: Any) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 // 0
    log(raised.value)
    assert log(raised.value).count("Traceback") == 2


def test_the_site_logs_through_this_filter(settings: Any) -> None:
    assert settings.LOGGING["handlers"]["console"]["filters"] == ["outages", "queries"]


def test_the_query_string_of_a_socket_isnt_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(NoQueries())
    line = ('%s - "WebSocket %s" [accepted]', "10.0.0.7:5", "/ws/runs/1/?token=tb_secret")
    logging.getLogger("uvicorn.error").info(*line)
    logging.getLogger("another").info(*line)
    assert [message.partition("WebSocket ")[2] for message in caplog.messages] == [
        '/ws/runs/1/" [accepted]',
        '/ws/runs/1/?token=tb_secret" [accepted]',
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_the_health_check_reports_an_outage(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def unreachable() -> Any:
        raise error("10.0.0.7 refused")

    monkeypatch.setattr(connection, "cursor", unreachable)
    response = client.get("/healthz")
    assert response.status_code == 503
    assert response.json() == {"status": "unavailable", "reason": "The database can't be reached."}


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_page_reports_an_outage(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def unreachable(*_: Any, **__: Any) -> Any:
        raise error("10.0.0.7 refused")

    client = Client(raise_request_exception=False)
    client.cookies["tuneboard_session"] = "x" * 32
    monkeypatch.setattr("dashboard.people.sessions.SessionStore.load", unreachable)
    response = client.get("/runs/")
    assert response.status_code == 503
    assert response.content.startswith(b"The database can't be reached")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b]52;c;eA==\x07", r"\x1b]52;c;eA==\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("a\n2026-01-01 INFO root: all is well", r"a\n2026-01-01 INFO root: all is well"),
        ("a\rb", r"a\rb"),
    ],
)
def test_names_neither_steer_the_terminal_nor_begin_a_line(name: str, shown: str) -> None:
    line = Plain(fmt="{levelname}: {message}", style="{")
    record = logging.makeLogRecord({"msg": "Run %s failed", "args": (name,), "levelname": "ERROR"})
    assert line.format(record) == f"ERROR: Run {shown} failed"


def test_a_traceback_has_its_lines() -> None:
    with pytest.raises(ValueError, match="invalid literal") as failed:
        int("\x1b[2J")
    record = logging.makeLogRecord({"msg": "failed", "exc_info": (failed.type, failed.value, failed.tb)})
    first, *_, last = Plain(fmt="{message}", style="{").format(record).split("\n")
    assert (first, last[:11]) == ("failed", "ValueError:")
    assert "\x1b" not in last


def test_every_log_is_plain(settings: Any) -> None:
    assert {each["()"] for each in settings.LOGGING["formatters"].values()} == {"dashboard.http.logs.Plain"}
