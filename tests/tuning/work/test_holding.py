"""While the database is away for long, the run may become another machine's: its engine begins no new measurement."""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Any

import pytest
from django.db import OperationalError

from tests.engine_fixtures import Play
from tests.world import claimed, extracted, make_run, trial
from tuning.engines.events import EventWriter
from tuning.engines.old_tvm import pipes as older_pipes
from tuning.engines.wire.protocol import VERSION, Finished, Hello, Phase
from tuning.models import LEASE
from tuning.work import supervisor
from tuning.work.recorder import Recorder
from tuning.work.supervisor import supervise

HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})


def outage(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """From the first batch of events on, the database can't be reached for this long."""
    began: list[float] = []
    record = Recorder.record

    def unreachable_at_first(self: Recorder, events: Any) -> Any:
        began[:] = began or [time.monotonic()]
        if time.monotonic() < began[0] + seconds:
            raise OperationalError("connection refused")
        return record(self, events)

    monkeypatch.setattr(supervisor, "RETRY_S", 0.01)
    monkeypatch.setattr(Recorder, "record", unreachable_at_first)


@pytest.mark.django_db(transaction=True)
def test_the_engine_is_held_until_the_database_is_back(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "HOLD_S", 0.2)
    monkeypatch.setattr(supervisor, "GUARD_S", 0.02)
    outage(monkeypatch, 1.0)
    play(HELLO, extracted(1), trial(0), {"do": "held"}, {"do": "held"}, trial(0), Finished("budget"))
    run = claimed(make_run(trials_budget=2))
    assert supervise(run, threading.Event()) == "finished"
    assert run.console_log.read_text().splitlines() == ["Hold(held=True)", "Hold(held=False)"]
    run.refresh_from_db()
    assert run.trials_done == 2, "nothing is lost"


@pytest.mark.django_db(transaction=True)
def test_a_short_outage_holds_nothing(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    outage(monkeypatch, 0.2)
    play(HELLO, extracted(1), trial(0), Finished("budget"))
    run = claimed(make_run(trials_budget=1))
    assert supervise(run, threading.Event()) == "finished"
    assert run.console_log.read_text() == ""
    assert LEASE.total_seconds() > supervisor.HOLD_S


@pytest.mark.parametrize("older", [False, True])
def test_a_held_engine_waits_before_it_reports(older: bool) -> None:
    """Each trial is reported before the next is measured."""
    reader, writer = os.pipe()
    events: Any = older_pipes.EventWriter(writer) if older else EventWriter(writer)
    events.hold(True)
    report = threading.Thread(target=lambda: events.send("phase", name="x") if older else events.send(Phase("loading")))
    report.start()
    assert select.select([reader], [], [], 0.2)[0] == []
    events.hold(False)
    report.join(30)
    assert os.read(reader, 4096)
    os.close(reader)
    os.close(writer)
