"""A database or broker that is down is reported in one line, once, and again when it is back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import OperationalError
from pytest_django.fixtures import Settings

from tuning.actions import sweeping
from tuning.actions.sweeper import Sweeper
from tuning.host import reachable
from tuning.host.reachable import broker_trouble, database_trouble, wait_for


@pytest.mark.django_db
def test_services_that_answer_are_no_trouble() -> None:
    assert database_trouble() is None
    assert broker_trouble() is None


def test_a_broker_that_is_down_is_named_without_its_password(settings: Settings) -> None:
    settings.REDIS_URL = "redis://me:secret@127.0.0.1:9/0"
    said = broker_trouble()
    assert said is not None
    assert said.startswith("The broker redis://127.0.0.1:9/0 can't be reached: ")
    assert "\n" not in said


def test_a_broker_url_with_another_scheme_is_reported(settings: Settings) -> None:
    settings.REDIS_URL = "amqp://127.0.0.1"
    assert "can't be reached: Redis URL must specify one of" in str(broker_trouble())


def test_each_trouble_and_its_end_are_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "PAUSE_S", 0.0)
    troubles: Iterator[str | None] = iter(["Away.", "Away.", "Refused.", None])
    said: list[str] = []
    wait_for(lambda: next(troubles), said.append)
    assert said == ["Away. Trying again every 0 s.", "Refused. Trying again every 0 s.", "It answers now."]


@pytest.mark.django_db(transaction=True)
def test_the_sweep_survives_a_database_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    away = OperationalError("server closed\nthe connection")
    outcomes: Iterator[OperationalError | int] = iter([away, away, 0])

    def sweep() -> int:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(sweeping, "sweep", sweep)
    said: list[str] = []
    sweeper = Sweeper(said.append)
    for _ in range(3):
        sweeper.due = 0
        sweeper.tick()
    assert said == [
        "The sweep can't use the database: server closed the connection. It keeps trying.",
        "The sweep can use the database again.",
    ]


@pytest.mark.parametrize("jump_s", [-60, 60, -3600, 3600])
@pytest.mark.django_db(transaction=True)
def test_after_an_outage_supervisors_may_renew_their_leases_before_the_next_sweep(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They couldn't while the database was down or the machine slept. A clock that was set looks the same."""
    calls: list[None] = []
    monkeypatch.setattr(sweeping, "sweep", lambda: calls.append(None))
    sweeper = Sweeper(lambda text: None)
    sweeper.usable_at -= jump_s
    for swept in (0, 1, 2):
        sweeper.due = 0
        sweeper.tick()
        assert len(calls) == swept


@pytest.mark.django_db(transaction=True)
def test_the_sweep_waits_until_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr(sweeping, "sweep", lambda: calls.append(None))
    sweeper = Sweeper(lambda text: None)
    sweeper.tick()
    sweeper.tick()
    assert len(calls) == 1
