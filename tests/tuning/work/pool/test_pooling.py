"""A run on several machines: real members as processes and jobs, here all on this machine, with devices that sleep.

The engine is a fake one, too, so what is tested is what is between: nothing is lost, and nothing is counted twice.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from django import conf
from django.db import connection
from django.utils import timezone

from tests.engine_fixtures import Play
from tests.threads import when
from tests.world import extracted, make_machine, make_run
from tuning.actions import runs
from tuning.actions.machines import steering
from tuning.engines.wire.pools.messages import FakeDevice
from tuning.engines.wire.protocol import VERSION, Finished, Hello
from tuning.host.machine import identity
from tuning.models import Machine, PoolMember, Run
from tuning.queue import jobs
from tuning.work.pool import dispatcher, pooling
from tuning.work.supervisor import supervise

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})
PLENTY = 5000
"""Trials of a run that ends once everything has happened that it waits for."""


def by_pool(**options: str) -> tuple[Any, ...]:
    """An engine that has its trials measured by the pool."""
    return (HELLO, extracted(1), {"do": "pool"} | options, Finished("budget"))


@pytest.fixture
def here() -> Machine:
    return make_machine("lab-1", key=identity.key())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that answer soon and make up nearly equal latencies."""
    monkeypatch.setattr(pooling, "FAKE", FakeDevice(takes_s=0.05, noise=0.005, wants=2))
    monkeypatch.setattr(pooling, "TEND_S", 0.3)
    monkeypatch.setattr("tuning.work.pool.taking_part.RENEW_S", 0.5)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """Who is invited comes at once: a thread for each of the other machines' workers."""
    started: list[threading.Thread] = []

    def invite(member: PoolMember) -> None:
        started.append(threading.Thread(target=work, args=(member.pk,)))
        started[-1].start()

    def work(key: int) -> None:
        try:
            jobs.take_part.run(key)
        finally:
            connection.close()

    monkeypatch.setattr(jobs, "invite", invite)
    yield started
    for thread in started:
        thread.join(120)  # A member that lost its run notices that late on a busy machine.
    assert not any(thread.is_alive() for thread in started)


@pytest.fixture
def play_until(play: Play, tmp_path: Path) -> Callable[[Callable[[], bool]], None]:
    """Has the engine tune until the condition holds, however long machines take to join."""

    def play_until(condition: Callable[[], bool]) -> None:
        enough = tmp_path / "enough"
        play(*by_pool(until=str(enough)))
        when(condition, enough.touch)

    return play_until


def tuned(run: Run, here: Machine, shutdown: threading.Event | None = None) -> Run:
    run.taker = here
    assert run.claim()
    supervise(run, shutdown or threading.Event(), jobs.invite)
    return Run.objects.get(pk=run.pk)


def when_measuring(run: Run, name: str, trials: int, act: Callable[[psutil.Process], object]) -> list[psutil.Process]:
    """Do something to the member's process once it has measured so much; the process is in the list then."""
    done: list[psutil.Process] = []

    measuring = run.pool_members.filter(machine__name=name, trials__gte=trials)

    def act_on_it() -> None:
        key = str(measuring.get().pk)
        done.append(next(one for one in processes() if one.cmdline()[-1] == key))
        act(done[0])

    when(measuring.exists, act_on_it)
    return done


def processes() -> Iterator[psutil.Process]:
    """Of the members on this machine."""
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # It may just have ended.
            if "tuning.work.pool.member" in child.cmdline():
                yield child


def measured_by_engine(run: Run) -> int:
    """Trials that the engine has answers for."""
    return sum(map(int, re.findall(r"measured: (\d+)", run.console_log.read_text())))


def left_in_redis() -> list[bytes]:
    """What pools have left there for good; last words to or from members expire."""
    client: Any = redis.Redis.from_url(conf.settings.REDIS_URL)
    return [key for key in client.keys("*pool.*") if client.ttl(key) == -1]


def test_every_machine_measures_and_every_trial_counts_once(
    here: Machine,
    workers: list[threading.Thread],
    play_until: Callable[[Callable[[], bool]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pooling, "TEND_S", 1.5)  # Who joins, measures before it is looked at again.
    others = [make_machine(f"lab-{number}") for number in (2, 3)]
    run = make_run(synthetic=True, machines_wanted=3, trials_budget=PLENTY)
    play_until(lambda: run.pool_members.filter(trials__gt=10).count() == 3)
    run = tuned(run, here)
    assert (run.status, run.error) == ("finished", None)
    for thread in workers:
        thread.join(120)  # A member that lost its run notices that late on a busy machine.
    members = {member.machine: member for member in run.pool_members.all()}
    assert members.keys() == {here, *others}
    assert sum(member.trials for member in members.values()) == run.trials_done == measured_by_engine(run)
    assert all(member.trials > 10 for member in members.values()), members
    measured = {name: run.trials.filter(machine__name=name).count() for name in ("lab-1", "lab-2", "lab-3")}
    assert measured == {machine.name: member.trials for machine, member in members.items()}
    assert {member.state for member in members.values()} == {"left"}
    assert not left_in_redis()
    console = run.console_log.read_text()
    for name in measured:
        assert re.findall(rf"Pool: {name} (.*)", console)[:2] == ["joins", "measures"]


@pytest.mark.usefixtures("workers")
def test_a_machine_that_is_left_alone_measures_by_itself_and_says_who_is_waited_for(here: Machine, play: Play) -> None:
    make_machine("lab-2", heartbeat_at=timezone.now() - timedelta(hours=1))
    make_machine("lab-3", draining_at=timezone.now())
    make_machine("big", cores=64)
    play(*by_pool())
    run = tuned(make_run(synthetic=True, machines_wanted=3, trials_budget=20), here)
    assert (run.status, run.trials_done) == ("finished", 20), run.error
    said = "Pool: 2 more machines are waited for: lab-2 is lost, lab-3 is drained"
    assert run.console_log.read_text().count(said) == 1


def test_whatever_happens_to_members_every_trial_counts_once(
    here: Machine,
    workers: list[threading.Thread],
    play_until: Callable[[Callable[[], bool]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "LOST_S", 4.0)
    drained = [make_machine(f"lab-{number}") for number in (2, 3, 4)][-1]
    run = make_run(synthetic=True, machines_wanted=0, trials_budget=PLENTY)
    play_until(lambda: run.pool_members.filter(state__in=("left", "lost")).count() == 3)
    when_measuring(run, "lab-2", 10, lambda process: process.kill())
    cut_off = when_measuring(run, "lab-3", 10, lambda process: process.suspend())
    when_measuring(run, "lab-4", 10, lambda _: steering.drain(drained))
    run = tuned(run, here)
    cut_off[0].resume()
    assert (run.status, run.error) == ("finished", None)
    found = {}
    for member in run.pool_members.order_by("-pk"):
        found[member.machine.name] = (member.state, member.reason)
    assert found == {
        "lab-1": ("left", ""),
        "lab-2": ("left", "Its process ended with status -9."),
        "lab-3": ("lost", "It hasn't been heard from for 4 s."),
        "lab-4": ("left", "It is being drained."),
    }
    assert sum(member.trials for member in run.pool_members.all()) == run.trials_done == measured_by_engine(run)
    assert "Pool: lab-4 has left: It is being drained." in run.console_log.read_text()


def test_a_stopped_run_stops_its_members_and_a_resumed_one_makes_a_new_pool(
    here: Machine, workers: list[threading.Thread], play: Play
) -> None:
    make_machine("lab-2")
    play(*by_pool())
    run = make_run(synthetic=True, machines_wanted=2, trials_budget=PLENTY)
    when_measuring(run, "lab-2", 20, lambda _: runs.stop(run))
    stopped = tuned(run, here)
    assert stopped.status == "stopped"
    assert stopped.trials_done < PLENTY
    budget = stopped.trials_done + 50
    Run.objects.filter(pk=run.pk).update(trials_budget=budget)
    assert run.requeue("stopped")
    done = tuned(Run.objects.get(pk=run.pk), here)
    assert (done.status, done.trials_done) == ("finished", budget), done.error
    assert len(set(run.pool_members.values_list("pool", flat=True))) == 2
