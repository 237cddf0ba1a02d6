"""What is kept of the machine while a run measures on it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import Value
from django.db.models.functions import Now

from tests.world import make_machine, make_run, on
from tuning.models import LOST, ConditionSample, Machine, Run
from tuning.work.course import conditions
from tuning.work.course.conditions import MOST, Conditions

pytestmark = pytest.mark.django_db
PROCESSOR = {"model": "A CPU", "cpus": 8, "governor": "powersave", "turbo": True, "smt": None, "kernel": "6.1"}
LOAD = {
    "cpus": 8,
    "others_cores": 0.5,
    "clock": {"mhz": 3100, "least_mhz": 2400, "celsius": None},
    "processor": PROCESSOR,
}


@pytest.fixture(autouse=True)
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "EVERY_S", 0.0)


def kept(run: Run, *columns: str) -> list[Any]:
    return list(run.condition_samples.values_list(*columns))


def test_a_look_stores_what_the_machine_tells() -> None:
    run = on(make_machine(load=LOAD))
    looking = Conditions(run)
    looking.look(2.0, 3)
    Machine.objects.update(
        load={**LOAD, "others_cores": None, "clock": {"mhz": None, "least_mhz": None, "celsius": 61.5}}
    )
    looking.look(7.0, 9)
    assert kept(run, "at_s", "done", "others_cores", "cpus", "mhz", "least_mhz", "celsius") == [
        (2.0, 3, 0.5, 8, 3100.0, 2400.0, None),
        (7.0, 9, None, 8, None, None, 61.5),
    ]
    (session,) = run.condition_sessions.all()
    assert (session.at_s, session.machine, session.processor) == (2.0, "lab-1", PROCESSOR)


def test_an_earlier_version_tells_only_the_load() -> None:
    run = on(make_machine(load={"cpus": 2, "others_cores": 0.25}))
    Conditions(run).look(1.0, 0)
    assert kept(run, "others_cores", "mhz", "celsius") == [(0.25, None, None)]
    assert run.condition_sessions.get().processor == {}


def test_a_machine_that_isnt_heard_of_tells_nothing() -> None:
    run = on(make_machine(load=LOAD))
    Machine.objects.update(heartbeat_at=Now() - Value(2 * LOST))
    Conditions(run).look(1.0, 0)
    assert not run.condition_samples.exists()
    assert not run.condition_sessions.exists()


def test_long_runs_have_few_samples_that_cover_all_of_it() -> None:
    run = on(make_machine(load=LOAD))
    rows = [
        ConditionSample(run=run, at_s=at, done=at, others_cores=at % 2, mhz=3000, least_mhz=1000 + at, celsius=at % 7)
        for at in range(MOST)
    ]
    ConditionSample.objects.bulk_create(rows)
    looking = Conditions(run)
    looking._began = True
    looking.look(float(MOST), MOST)
    found = kept(run, "at_s", "others_cores", "least_mhz", "celsius")
    assert len(found) == MOST // 2 + 1
    assert found[:2] == [(1.0, 0.5, 1000.0, 1.0), (3.0, 0.5, 1002.0, 3.0)]
    assert found[-1][0] == MOST
    looking.look(MOST + 1.0, MOST)
    assert len(kept(run, "at_s")) == len(found), "from now on, one sample covers twice the time"
    looking.look(MOST + 2.0, MOST)
    assert len(kept(run, "at_s")) == len(found) + 1


@pytest.mark.parametrize(
    ("given", "here"),
    [({}, True), ({"device": "rpc:lab/board"}, False), ({"machines_wanted": 3}, False)],
    ids=["this machine", "a remote device", "a pool"],
)
def test_only_the_machine_that_measures_is_looked_at(given: dict[str, Any], *, here: bool) -> None:
    assert on(make_machine(), **given).measures_here is here


def test_without_a_machine_there_is_none_to_look_at() -> None:
    assert not make_run().measures_here
