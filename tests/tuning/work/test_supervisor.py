"""A run from claim to end, with a fake engine in a real process: every way to end, and nothing is lost."""

from __future__ import annotations

import logging
import threading
from itertools import groupby, pairwise
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models.functions import Now

from tests.engine_fixtures import Play
from tests.family import descendants
from tests.world import claimed, extracted, make_machine, make_run, on, trial
from tuning.actions.runs import resume, stop
from tuning.engines.wire.protocol import VERSION, Confirmed, Failed, Finished, Hello, Phase
from tuning.host import processes
from tuning.models import Machine, PoolMember, Run, RunDelta
from tuning.work import supervisor
from tuning.work.recorder import Recorder
from tuning.work.supervisor import _Supervision, supervise

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={"apache-tvm": "0.27"})
BEGINNING = (HELLO, extracted(), trial(0, 2e-3), trial(1, 3e-3))


def tune(run: Run, shutdown: threading.Event | None = None) -> Run:
    assert supervise(claimed(run), shutdown or threading.Event()) == Run.objects.get(pk=run.pk).status
    run.refresh_from_db()
    return run


def test_it_finishes_when_the_budget_is_spent(play: Play) -> None:
    play(*BEGINNING, {"do": "print", "text": "hello from TVM"}, Finished("budget"))
    run = tune(make_run(trials_budget=2))
    assert (run.status, run.error, run.trials_done) == ("finished", None, 2)
    assert (run.phase, run.versions) == (None, {"apache-tvm": "0.27"})
    assert run.estimated_latency_s == pytest.approx(2e-3 + 2 * 3e-3)
    assert run.finished_at is not None
    assert run.elapsed_s is not None
    assert run.elapsed_s > 0
    assert run.console_log.read_text() == "hello from TVM\n"
    assert descendants("fake_engine") == []


@pytest.mark.parametrize(("others", "noisy"), [(2.5, True), (0.4, False), (None, False)])
def test_it_notices_that_others_disturb_the_machine(
    play: Play, monkeypatch: pytest.MonkeyPatch, others: float | None, *, noisy: bool
) -> None:
    told: list[list[str]] = []
    monkeypatch.setattr(supervisor, "announce", lambda _, delta: told.append(kinds(delta)))
    machine = make_machine("lab-1", load={"cpus": 8, "others_cores": others})
    play(*BEGINNING[:3], Finished("budget"))
    run = make_run(trials_budget=1)
    run.taker = machine
    run = tune(run)
    assert run.machine == machine
    assert list(run.trials.values_list("noisy", flat=True)) == [noisy]
    assert told[-1] == (["disturbed"] if noisy else [])
    assert (run.trials_noisy, run.disturbed, run.alerts([])) == (int(noisy), [], [])


def kinds(delta: RunDelta) -> list[str]:
    """Of the alerts, without those about tasks."""
    return [alert["kind"] for alert in delta["run"]["alerts"] if alert["task"] is None]


def test_watchers_are_told_of_disturbance_although_no_trial_ends(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = make_machine("lab-1", load={"cpus": 8, "others_cores": 2.5})
    told: list[list[str]] = []

    def quiet_later(_: int, delta: RunDelta) -> None:
        told.append(kinds(delta))
        Machine.objects.update(load={"cpus": 8, "others_cores": 0.1})

    monkeypatch.setattr(supervisor, "announce", quiet_later)
    monkeypatch.setattr(supervisor, "LOOK_S", 0.1)
    play(*BEGINNING[:2], {"do": "sleep", "seconds": 2}, trial(0, 2e-3), Finished("budget"))
    run = make_run(trials_budget=1)
    run.taker = machine
    tune(run)
    assert [kind for kind, _ in groupby(told)] == [["disturbed"], []]


def test_of_a_pool_only_machines_that_take_part_are_told_of() -> None:
    for name in ("lab-1", "lab-2", "lab-3"):
        make_machine(name, load={"cpus": 8, "others_cores": 8.0})
    home, there, gone = Machine.objects.all()
    run = on(home, machines_wanted=3)
    for machine, state in ((home, "measuring"), (there, "checking"), (gone, "left")):
        PoolMember.objects.create(run=run, machine=machine, device="cpu", state=state, heartbeat_at=Now())
    supervision = _Supervision(run, threading.Event())
    assert supervision._look([trial(machine=name) for name in ("lab-2", "lab-3")])
    assert supervision.recorder.disturbed == {"lab-1", "lab-2", "lab-3"}
    (alert,) = supervision.recorder.run.alerts([])
    assert "of the CPU of lab-1 and lab-2, so" in alert["message"]


def test_it_fails_when_no_trial_was_ever_valid(play: Play) -> None:
    play(HELLO, extracted(1), trial(0, None, error="Traceback\n\nValueError: no schedule fits"), Finished("exhausted"))
    run = tune(make_run())
    assert run.status == "failed"
    assert run.error == "None of the 1 trials was valid. Most often (1×): ValueError: no schedule fits"


def test_it_fails_when_nothing_was_measured_at_all(play: Play) -> None:
    play(HELLO, extracted(1), Finished("exhausted"))
    assert "No trial was measured" in str(tune(make_run()).error)


def test_it_stores_why_the_engine_failed(play: Play) -> None:
    play(HELLO, Failed("LLVM knows no processor m68k", field="target"))
    run = tune(make_run())
    assert (run.status, run.error) == ("failed", "LLVM knows no processor m68k")


def test_a_killed_engine_is_reported_with_the_signal_and_its_last_lines(play: Play) -> None:
    play(*BEGINNING, {"do": "print", "text": "about to crash"}, {"do": "kill"})
    run = tune(make_run())
    assert run.status == "failed"
    assert run.error == "The engine was killed by SIGKILL.\nIts last lines:\nabout to crash"
    assert run.trials_done == 2


def test_a_run_whose_engine_is_killed_while_it_confirms_has_finished(play: Play) -> None:
    play(*BEGINNING, Phase("confirming", 0), Confirmed(0, [1], [[3e-3] * 5]), {"do": "kill"})
    made = make_run(trials_budget=2)
    built = made.work_dir / "artifacts" / "candidate.ll"
    built.parent.mkdir(parents=True)
    built.touch()
    run = tune(made)
    assert (run.status, run.finish_reason, run.error) == ("finished", "budget", None)
    assert list(run.tasks.values_list("confirmed_latency_s", flat=True)) == [3e-3, None]
    assert not built.parent.exists(), "the engine would have removed it"
    play(*BEGINNING, Phase("confirming", 0), {"do": "kill"})
    assert tune(make_run()).status == "failed", "of its budget something is left, so it can be resumed"


def test_an_engine_that_gave_no_reason_is_reported_with_its_exit_status(play: Play) -> None:
    play(HELLO, {"do": "exit", "status": 3})
    assert tune(make_run()).error == "The engine ended with exit status 3 and gave no reason."


def test_a_killed_run_is_resumed_to_exactly_its_budget(play: Play) -> None:
    rest = [trial(0, 1e-3), trial(1, 1e-3)]
    play(*BEGINNING, {"do": "kill"})
    run = tune(make_run(trials_budget=4))
    play(*BEGINNING, *rest, Finished("budget"))
    run = tune(resume(run))
    assert (run.status, run.trials_done) == ("finished", 4)
    assert list(run.trials.values_list("number", "latency_s")) == [(1, 2e-3), (2, 3e-3), (3, 1e-3), (4, 1e-3)]
    assert list(run.tasks.values_list("trials", flat=True)) == [2, 2]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"do": "raw", "text": "Segmentation fault"}, "isn't an event"),
        (Hello(version=VERSION + 1, engine="fake", pid=1, versions={}), "version"),
        (trial(9), "task 9"),
        ({"do": "raw", "text": '{"type":"trial","task":0,"latency_s":-1,"at_s":1}'}, "latency_s"),
        ({"do": "raw", "text": '{"type":"trial","task":0,"latency_s":1e300,"at_s":1}'}, "latency_s"),
        ({"do": "raw", "text": '{"type":"trial","task":0,"latency_s":1e999,"at_s":1}'}, "out of range"),
        ({"do": "raw", "text": '{"type":"trial","task":0,"latency_s":NaN,"at_s":1}'}, "malformed"),
        ({"do": "raw", "text": '{"type":"trial","task":"0","latency_s":1,"at_s":1}'}, "task"),
        ({"do": "raw", "text": f'{{"type":"trial","task":{10**30},"latency_s":1,"at_s":1}}'}, "task"),
        ({"do": "raw", "text": f'{{"type":"warm_started","tasks":[{10**30}],"runs":{"[" * 100_000}'}, "isn't an event"),
        ({"do": "raw", "text": f'{{"type":"phase","name":"searching","task":{10**30}}}'}, "database can't hold"),
        ({"do": "endless"}, "more than 128 MiB"),
    ],
    ids=lambda wrong: str(wrong)[:80],
)
def test_it_ends_an_engine_that_breaks_the_protocol(play: Play, wrong: Any, says: str) -> None:
    play(*BEGINNING, {"do": "sleep", "seconds": 0.3}, wrong, {"do": "ignore"})
    run = tune(make_run())
    assert run.status == "failed"
    assert says in str(run.error)
    assert run.trials_done == 2
    assert descendants("fake_engine") == []


def when_recorded(monkeypatch: pytest.MonkeyPatch, trials: int, do: Any) -> None:
    """Call `do` once this many trials are in the database."""
    record, due = Recorder.record, [do]

    def watched(self: Recorder, events: Any) -> Any:
        delta = record(self, events)
        if delta["last"] == trials and due:
            due.pop()()
        return delta

    monkeypatch.setattr(Recorder, "record", watched)


def test_stop_ends_the_run_stopped(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play(*BEGINNING, {"do": "wait"})
    run = make_run()
    when_recorded(monkeypatch, 2, lambda: stop(Run.objects.get(pk=run.pk)))
    assert (tune(run).status, run.error, run.trials_done) == ("stopped", None, 2)


def test_an_engine_that_does_not_stop_is_killed(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STOP_GRACE_S", 0.2)
    play(*BEGINNING, {"do": "ignore"})
    run = make_run()
    when_recorded(monkeypatch, 2, lambda: stop(Run.objects.get(pk=run.pk)))
    assert tune(run).status == "stopped"
    assert descendants("fake_engine") == []


def test_a_run_that_reached_its_budget_while_it_was_told_to_stop_is_finished(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(*BEGINNING, Finished("budget"))
    run = make_run(trials_budget=2)
    when_recorded(monkeypatch, 2, lambda: Run.objects.filter(pk=run.pk).update(status="stopping"))
    assert tune(run).status == "finished"


def test_a_worker_that_shuts_down_leaves_the_run_interrupted_and_resumable(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(*BEGINNING, {"do": "wait"})
    shutdown = threading.Event()
    when_recorded(monkeypatch, 2, shutdown.set)
    run = tune(make_run(), shutdown)
    assert run.status == "interrupted"
    assert "Resume" in str(run.error)
    assert run.can_resume


def test_a_run_that_was_taken_away_is_left_alone(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "RENEW_S", 0.01)
    play(*BEGINNING, {"do": "ignore"})
    run = claimed(make_run())
    taken = {"lease": "another supervisor's", "status": "running"}
    when_recorded(monkeypatch, 2, lambda: Run.objects.filter(pk=run.pk).update(**taken))
    assert supervise(run, threading.Event()) == "running"
    run.refresh_from_db()
    assert (run.lease, run.error, run.trials_done) == ("another supervisor's", None, 2)
    assert descendants("fake_engine") == []


def test_it_waits_for_a_database_that_is_down_and_logs_that_once(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "RETRY_S", 0.01)
    play(*BEGINNING, Finished("budget"))
    record, failures = Recorder.record, [OperationalError("connection refused")] * 3

    def unreachable_at_first(self: Recorder, events: Any) -> Any:
        if failures:
            raise failures.pop()
        return record(self, events)

    monkeypatch.setattr(Recorder, "record", unreachable_at_first)
    with caplog.at_level(logging.WARNING):
        run = tune(make_run(trials_budget=2))
    assert (run.status, run.trials_done) == ("finished", 2)
    assert [entry.message for entry in caplog.records if "waits for the database" in entry.message] == [
        f"Run {run.pk} waits for the database: connection refused"
    ]


@pytest.mark.parametrize("step", ["announce_status", "Recorder"])
def test_it_waits_for_a_database_that_is_down_at_the_beginning_or_end(
    play: Play, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(supervisor, "RETRY_S", 0.01)
    play(*BEGINNING, Finished("budget"))
    real, calls = getattr(supervisor, step), iter(range(100))

    def away_every_other_time(*args: Any) -> Any:
        if next(calls) % 2 == 0:
            raise OperationalError("connection refused")
        return real(*args)

    monkeypatch.setattr(supervisor, step, away_every_other_time)
    assert tune(make_run(trials_budget=2)).status == "finished"


def test_an_engine_that_ignores_a_shutdown_is_killed_before_the_worker_is(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SHUTDOWN_GRACE_S", 0.2)
    monkeypatch.setattr(supervisor, "STOP_GRACE_S", 600.0)
    play(*BEGINNING, {"do": "ignore"})
    shutdown = threading.Event()
    when_recorded(monkeypatch, 2, shutdown.set)
    assert tune(make_run(), shutdown).status == "interrupted"
    assert supervisor.SHUTDOWN_GRACE_S < processes.GRACE_S
    assert descendants("fake_engine") == []


def test_an_internal_error_is_stored_with_the_run(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play(*BEGINNING, {"do": "ignore"})
    when_recorded(monkeypatch, 2, lambda: 1 / 0)
    run = claimed(make_run())
    with pytest.raises(ZeroDivisionError):
        supervise(run, threading.Event())
    run.refresh_from_db()
    assert run.status == "failed"
    assert "ZeroDivisionError" in str(run.error)
    assert run.finished_at is not None
    assert run.phase is None
    assert descendants("fake_engine") == []


def test_it_announces_every_trial_once_and_in_order(
    play: Play, announced: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(*BEGINNING, Phase("searching", 0), {"do": "sleep", "seconds": 0.2}, trial(0, 1e-3), Finished("budget"))
    tune(make_run(trials_budget=3))
    numbers = [number for delta in announced for number in delta["trials"]["number"]]
    assert numbers == [1, 2, 3]
    assert all(a["last"] == b["after"] for a, b in pairwise(announced))
    assert [announced[0]["run"]["status"], announced[-1]["run"]["status"]] == ["running", "finished"]
