"""A worker takes what its machine may, in the fair order; a drained machine lets its run go to another one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.engine_fixtures import Play
from tests.world import claimed, extracted, make_compilation, make_machine, make_run, trial
from tuning.actions.machines import steering
from tuning.engines.wire.protocol import VERSION, Finished, Hello
from tuning.engines.wire.tracker import Address
from tuning.host.machine import identity
from tuning.models import FULL, LEASE, Machine, Needs, PoolMember, Run
from tuning.queue import jobs
from tuning.queue.celery import full_names, queue_of
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})
ONE_TRIAL = (HELLO, extracted(1), trial(0), Finished("budget"))


@pytest.fixture
def here() -> Machine:
    """This machine."""
    return make_machine("lab-1", key=identity.key())


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Each message to a worker: the row's key, and the queue."""
    found: list[tuple[int, str]] = []
    for task in (jobs.tune, jobs.compile_library):
        monkeypatch.setattr(task, "apply_async", lambda args, queue, retry: found.append((args[0], queue)))
    return found


def at(second: int) -> datetime:
    return timezone.now() + timedelta(seconds=second - 1000)


def when_recorded(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once the first trial is recorded."""
    record, done = Recorder.record, threading.Event()

    def and_act(self: Recorder, events: Any) -> Any:
        delta = record(self, events)
        if delta["last"] and not done.is_set():
            done.set()
            act()
        return delta

    monkeypatch.setattr(Recorder, "record", and_act)


def test_each_machine_has_its_own_queues(settings: Any) -> None:
    settings.MACHINE = "lab.1"
    settings.TRACKERS = {"lab": Address("127.0.0.1", 9), "other": Address("127.0.0.1", 10)}
    assert full_names("device.cpu") == [queue_of("cpu")] == ["device.lab.1.cpu"]
    assert queue_of("cuda:0", "lab-2") == "device.lab-2.cuda:0"
    assert full_names("compile") == ["compile"]
    theirs = ["device.rpc:lab", "device.lab.1.rpc:lab", "device.rpc:other", "device.lab.1.rpc:other"]
    assert full_names("device.rpc") == theirs, "only of trackers that it allows"
    assert [queue_of("rpc:lab/pi"), queue_of("rpc:lab/pi", "lab.1")] == theirs[:2]


def test_a_trackers_device_is_held_once_for_all_machines_and_a_choice_among_them_is_kept(
    here: Machine, told: list[tuple[int, str]]
) -> None:
    other = make_machine("lab-2")
    chosen, anywhere = make_run(device="rpc:lab/pi", chosen_machine=other), make_run(device="rpc:lab/pi")
    for run in (chosen, anywhere):
        jobs.enqueue(run)
    assert told == [(chosen.pk, "device.lab-2.rpc:lab"), (anywhere.pk, "device.rpc:lab")]
    assert Run.objects.next_for("rpc:lab/pi", here) == anywhere
    assert Run.objects.next_for("rpc:lab/pi", other) == chosen
    anywhere.taker = here
    assert anywhere.claim()
    chosen.taker = other
    assert not chosen.claim(), "one machine has it"
    assert anywhere.finish(to="finished")
    Machine.objects.filter(pk=other.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))
    assert Run.objects.next_for("rpc:lab/pi", None) is None, "nobody is told who can't take it"
    assert "waits until lab-2 is back" in Run.objects.places()[chosen.pk].waits


def test_only_machines_that_are_free_and_fit_are_told(here: Machine, told: list[tuple[int, str]]) -> None:
    busy = make_run()
    busy.taker = make_machine("lab-2")
    claimed(busy)
    make_machine("lab-3", draining_at=timezone.now())
    make_machine("lab-4", features=["aarch64"])
    make_machine("lab-5", devices=["cuda:0"])
    run = make_run(needs=Needs.objects.of(["x86_64"], 2))
    jobs.enqueue(run)
    assert told == [(run.pk, "device.lab-1.cpu")]


def test_a_proof_goes_to_the_machine_that_tuned_or_one_like_it(here: Machine, told: list[tuple[int, str]]) -> None:
    versions = {**identity.versions(), "python": "3.13.0"}
    make_machine("lab-2", versions=versions)
    make_machine("lab-3", cores=4)
    make_machine("lab-4", versions={**versions, "apache-tvm": "0.1"})
    proof = make_compilation(make_run(status="finished", machine=here), status="queued", stage="prove")
    jobs.enqueue(proof)
    assert told == [(proof.pk, "device.lab-1.cpu"), (proof.pk, "device.lab-2.cpu")]


def test_a_worker_takes_one_after_another_until_nothing_is_left(here: Machine, play: Play) -> None:
    play(*ONE_TRIAL)
    second, first = (make_run(trials_budget=1, queued_at=at(second)) for second in (2, 1))
    elsewhere = make_run(trials_budget=1, chosen_machine=make_machine("lab-2"))
    jobs.tune(second.pk)
    for run in (first, second, elsewhere):
        run.refresh_from_db()
    assert [run.status for run in (first, second, elsewhere)] == ["finished", "finished", "queued"]
    assert first.finished_at
    assert second.started_at
    assert first.finished_at <= second.started_at
    assert first.machine == second.machine == here


@pytest.mark.parametrize("why", [{"draining_at": "2026-01-01T00:00:00Z"}, {"trouble": "too old"}])
def test_a_machine_that_may_not_takes_nothing(here: Machine, why: dict[str, str], play: Play) -> None:
    play(*ONE_TRIAL)
    Machine.objects.filter(pk=here.pk).update(**why)
    run = make_run(trials_budget=1)
    jobs.tune(run.pk)
    run.refresh_from_db()
    assert run.status == "queued"


def test_a_machine_with_a_full_disk_takes_nothing(here: Machine, monkeypatch: pytest.MonkeyPatch, play: Play) -> None:
    play(*ONE_TRIAL)
    monkeypatch.setattr(jobs, "disk_free", lambda _: FULL - 1)
    run, member = make_run(trials_budget=1), PoolMember.objects.create(run=make_run(), machine=here, device="cpu")
    jobs.tune(run.pk)
    jobs.take_part(member.pk)
    run.refresh_from_db()
    member.refresh_from_db()
    assert (run.status, member.state) == ("queued", "invited")


def drained_while_tuning(here: Machine, run: Run, play: Play, monkeypatch: pytest.MonkeyPatch) -> Run:
    play(HELLO, extracted(1), trial(0), {"do": "wait"})
    when_recorded(monkeypatch, lambda: steering.drain(here))
    jobs.tune(run.pk)
    run.refresh_from_db()
    return run


def test_a_run_leaves_a_drained_machine_for_another_one_that_fits(
    here: Machine, told: list[tuple[int, str]], play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_machine("lab-2")
    run = drained_while_tuning(here, make_run(needs=Needs.objects.of(["x86_64"], 2)), play, monkeypatch)
    assert (run.status, run.trials_done, run.error) == ("queued", 1, None)
    assert told == [(run.pk, "device.lab-2.cpu")]
    here.refresh_from_db()
    assert here.state == "drained"


def test_a_run_that_no_other_machine_may_take_is_interrupted_and_can_be_resumed(
    here: Machine, told: list[tuple[int, str]], play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_machine("lab-2")
    run = drained_while_tuning(here, make_run(chosen_machine=here), play, monkeypatch)
    assert (run.status, run.can_resume, told) == ("interrupted", True, [])
    assert run.error == "lab-1 is being drained. Resume the run to continue where it stopped."


def test_a_machine_whose_clock_is_wrong_keeps_its_lease(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(started_at=None)
    run.taker = here
    true = timezone.now
    for hours in (1, -1):
        with monkeypatch.context() as wrong:
            wrong.setattr(timezone, "now", lambda hours=hours: true() + timedelta(hours=hours))
            assert run.renew() if run.is_live else run.claim()
            assert not Run.objects.abandoned().exists(), "also as that machine sees it"
        assert not Run.objects.abandoned().exists()
        run.refresh_from_db()
        assert run.heartbeat_at
        assert run.started_at
        assert abs(run.heartbeat_at - true()) < LEASE
        assert abs(run.started_at - true()) < LEASE
