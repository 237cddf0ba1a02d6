"""What is kept of the machine while a run measures on it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from django.db.models import Value
from django.db.models.functions import Now

from tests.world import make_machine, make_run, on
from tuning.models import LOST, ConditionSample, Machine, PoolMember, Run
from tuning.work.course.conditions import EVERY_S, LEAST, MOST, Conditions

pytestmark = pytest.mark.django_db
PROCESSOR = {"model": "A CPU", "cpus": 8, "governor": "powersave", "turbo": True, "smt": None, "kernel": "6.1"}
LOAD = {
    "cpus": 8,
    "others_cores": 0.5,
    "clock": {"mhz": 3100, "least_mhz": 2400, "celsius": None},
    "processor": PROCESSOR,
}


def conditions_of(run: Run) -> Conditions:
    """For which it is time to look each time."""
    return Conditions(run, itertools.count(0.0, EVERY_S).__next__)


def kept(run: Run, *columns: str) -> list[Any]:
    return list(run.condition_samples.values_list(*columns))


def test_a_look_stores_what_the_machine_tells() -> None:
    run = on(make_machine(load=LOAD))
    looking = conditions_of(run)
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


def samples(run: Run, count: int, machine: str = "") -> None:
    rows = (
        ConditionSample(
            run=run,
            machine=machine,
            at_s=at * EVERY_S,
            done=at,
            others_cores=at % 2,
            mhz=3000,
            least_mhz=1000 + at,
            celsius=at % 7,
        )
        for at in range(count)
    )
    ConditionSample.objects.bulk_create(rows)


def test_long_runs_have_few_samples_that_cover_all_of_it() -> None:
    run = on(make_machine(load=LOAD))
    samples(run, MOST)
    looking = conditions_of(run)
    looking.look(MOST * EVERY_S, MOST)
    found = kept(run, "at_s", "others_cores", "least_mhz", "celsius")
    assert len(found) == MOST // 2 + 1
    assert found[:2] == [(EVERY_S, 0.5, 1000.0, 1.0), (3 * EVERY_S, 0.5, 1002.0, 3.0)]
    assert found[-1][0] == MOST * EVERY_S
    looking.look(MOST * EVERY_S + 5, MOST)
    assert len(kept(run, "at_s")) == len(found), "from now on, one sample covers twice the time"
    looking.look(MOST * EVERY_S + 10, MOST)
    assert len(kept(run, "at_s")) == len(found) + 1
    again = conditions_of(run)
    again.look(MOST * EVERY_S + 60, MOST)
    assert len(kept(run, "at_s")) == len(found) + 1, "in its next session, too"


def pooled(*names: str, **values: Any) -> Run:
    """A run that all these machines measure; the first one tunes it."""
    machines = [make_machine(name, load=LOAD) for name in names]
    run = on(machines[0], machines_wanted=0, **values)
    for machine in machines:
        PoolMember.objects.create(
            run=run, machine=machine, device="cpu", pool="a", state=PoolMember.State.MEASURING, heartbeat_at=Now()
        )
    return run


def test_each_machine_of_a_pool_has_its_own_samples() -> None:
    run = pooled("lab-1", "lab-2")
    make_machine("lab-3", load=LOAD)
    Machine.objects.filter(name="lab-2").update(load={**LOAD, "others_cores": 4.0})
    looking = conditions_of(run)
    looking.look(2.0, 3)
    run.pool_members.filter(machine__name="lab-1").update(state=PoolMember.State.LEFT)
    looking.look(7.0, 9)
    assert kept(run, "machine", "at_s", "others_cores") == [
        ("lab-1", 2.0, 0.5),
        ("lab-2", 2.0, 4.0),
        ("lab-2", 7.0, 4.0),
    ]
    assert list(run.condition_sessions.values_list("machine", flat=True)) == ["lab-1", "lab-2"]


def test_the_machines_of_a_pool_share_the_samples_that_a_run_may_have() -> None:
    names = [f"lab-{number}" for number in range(1, 5)]
    run = pooled(*names)
    for name in names[:2]:
        samples(run, MOST // 4, name)
    looking = conditions_of(run)
    looking.look(MOST * EVERY_S, MOST)
    counts = [run.condition_samples.filter(machine=name).count() for name in names]
    assert counts == [MOST // 8 + 1, MOST // 8 + 1, 1, 1]
    assert LEAST < MOST // 4


@pytest.mark.parametrize(
    ("given", "here", "told"),
    [
        ({}, True, True),
        ({"machines_wanted": 3}, False, True),
        ({"device": "rpc:lab/board"}, False, False),
        ({"synthetic": True, "machines_wanted": 3}, False, False),
    ],
    ids=["this machine", "a pool", "a remote device", "fake devices"],
)
def test_only_machines_that_measure_are_looked_at(given: dict[str, Any], *, here: bool, told: bool) -> None:
    run = on(make_machine(), **given)
    assert (run.measures_here, run.measured_by_machines) == (here, told)


def test_without_a_machine_there_is_none_to_look_at() -> None:
    assert not make_run().measures_here
    assert not make_run().measured_by_machines
