"""A machine whose clock is an hour off: what it writes and reads is by the database's clock.

`tests/house/test_pool_faults.py` has one that tunes.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from tests.receiver import receiving
from tests.world import claimed, make_machine, make_run, on
from tuning.actions.machines.registering import register
from tuning.models import Delivery, Machine, PoolMember, Run, Tally
from tuning.queue import jobs
from tuning.reads import metrics
from tuning.reads.machines import listing, queues
from tuning.storage import Store
from tuning.storage.tables import StoredFile
from tuning.work.pool.taking_part import claim

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
SOON = timedelta(minutes=10)
"""Longer than any test takes, and much less than an hour."""


@pytest.fixture(autouse=True, params=(HOUR, -HOUR), ids=("ahead", "behind"))
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> timedelta:
    """How far this process's clock is ahead, as far as Django asks it; SQLite and PostgreSQL have their own."""
    ahead: timedelta = request.param

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + ahead

    monkeypatch.setattr(timezone, "datetime", Wrong)
    assert abs(timezone.now() - datetime.now(timezone.get_default_timezone()) - ahead) < SOON
    return ahead


def is_now(row: models.Model, *columns: str) -> bool:
    """Whether these times are about now."""
    about = Q(*((f"{column}__range", (Now() - SOON, Now() + SOON)) for column in columns))
    return type(row)._default_manager.filter(about, pk=row.pk).exists()


def test_it_is_alive_and_its_run_and_its_part_in_another_are_not_lost() -> None:
    machine = register()
    assert machine.is_alive
    assert is_now(machine, "joined_at", "heartbeat_at")
    run = on(machine)
    assert run.renew()
    assert not Run.objects.abandoned().exists()
    assert is_now(run, "started_at", "heartbeat_at")
    assert run.finish(to="finished")
    assert is_now(run, "finished_at")
    member = PoolMember.objects.create(
        run=claimed(make_run(machines_wanted=2)), machine=machine, device="cpu", pool="1.a"
    )
    assert claim(member)
    assert PoolMember.objects.lose() == 0
    assert PoolMember.objects.active().get() == member
    assert is_now(member, "invited_at", "joined_at", "heartbeat_at")


def test_webhooks_about_its_runs_are_sent_at_once_and_signed_with_the_right_time(settings: Any) -> None:
    with receiving() as receiver:
        settings.WEBHOOKS = [receiver.url]
        assert claimed(make_run()).finish(to="finished")
        delivery = Delivery.objects.get()
        assert is_now(delivery, "created_at", "due_at")
        assert {one["name"]: one["length"] for one in queues.queues()}["webhook"] == 1
        jobs.deliver(delivery.pk)
    delivery.refresh_from_db()
    assert (delivery.status, is_now(delivery, "ended_at")) == ("sent", True)
    ((_, headers, _),) = receiver.got
    (message,) = receiver.messages
    for told in (float(headers["webhook-timestamp"]), datetime.fromisoformat(message["timestamp"]).timestamp()):
        assert abs(time.time() - told) < SOON.total_seconds()


def test_what_it_stores_is_not_old_before_its_time(shared: Store, settings: Any) -> None:
    uploads = Path(settings.VAR, "uploads")
    shared.append(uploads / "1" / "model.onnx", 0, b"model")
    assert is_now(StoredFile.objects.get(), "changed_at")
    assert shared.old(uploads, SOON) == []
    StoredFile.objects.update(changed_at=Now() - 2 * SOON)
    assert shared.old(uploads, SOON) == [uploads / "1"]


def test_what_it_counts_is_counted_in_this_minute_and_shown_where_the_site_is() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("with SQLite, its clock is that of the only machine")
    make_machine("lab-1")
    Tally.objects.add("cpu", {Tally.What.TRIALS: 3.0}, "lab-1")
    counted = Tally.objects.since(Now() - SOON).get()
    assert is_now(counted, "minute")
    assert sum(metrics.timeline().trials["cpu"]) == 3.0
    assert listing._used()["lab-1"]["trials"] == 3.0
    Tally.objects.filter(pk=counted.pk).update(minute=Now() - HOUR - SOON)
    assert "lab-1" not in listing._used()
    assert Machine.objects.alive().exists()
