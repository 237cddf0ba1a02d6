"""`manage.py tune`: output and exit status."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from dashboard.management.commands import tune
from dashboard.presentation.terminal import RunProgress
from tests import older_tvm
from tests.engine_fixtures import Play
from tests.threads import when
from tests.world import claimed, extracted, make_machine, make_run, measured_run, trial
from tuning.actions import runs
from tuning.engines.wire.protocol import VERSION, Failed, Finished, Hello, Plateaued, WarmStarted
from tuning.host import targets
from tuning.host.machine import identity
from tuning.models import Run
from tuning.queue import jobs
from tuning.work.supervisor import supervise

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})
BEGINNING = (HELLO, extracted(), trial(0, 2e-3), trial(1, 3e-3))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Resolves targets without TVM and restores this process's signal handlers."""
    here: targets.TargetDict = {"target": {"kind": "llvm"}, "device": "cpu", "label": "llvm"}
    for resolve in ("resolve", "resolve_elsewhere"):
        monkeypatch.setattr(targets, resolve, lambda target: here)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_it_prints_the_tasks_and_the_estimate(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play(*BEGINNING, Finished("budget"))
    call_command("tune", "mlp", "--trials", "2")
    said = capsys.readouterr().out
    assert "fused_matmul1" in said
    assert "finished: 2 of 2 trials" in said
    assert "8.000\u00a0ms (2 of 2 tasks measured)" in said
    assert Run.objects.get().status == "finished"


def test_it_says_what_is_left_to_gain(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    measured_run([(0, 1e-9)], device="")
    play(*BEGINNING, Finished("budget"))
    call_command("tune", "mlp", "--trials", "2")
    assert "Other runs are faster in task 0: equalling them would gain" in capsys.readouterr().out


def test_it_prints_the_run_as_json_and_nothing_else(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play(*BEGINNING, Finished("budget"))
    call_command("tune", "matmul", "--option", "n=64", "--trials", "2", "--seed", "5", "--json")
    run = json.loads(capsys.readouterr().out)
    assert (run["status"], run["network_options"]["n"], run["options"]["seed"]) == ("finished", 64, 5)
    assert [task["trials"] for task in run["tasks"]] == [1, 1]


def test_options_of_networks_are_options_of_the_command(play: Play) -> None:
    play(*BEGINNING, Finished("budget"))
    call_command("tune", "mobilenet", "--layout", "NCHW", "--batch", "2", "--trials", "2")
    assert Run.objects.get().network_options == {"batch": 2, "layout": "NCHW", "dtype": "float32"}


def test_it_prints_the_end_and_the_warm_start(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play(HELLO, extracted(), WarmStarted([0], [7]), trial(0), trial(1), Plateaued(1), Finished("time_limit"))
    call_command("tune", "mlp", "--trials", "64", "--time-limit-s", "90")
    said = capsys.readouterr().out
    assert "Finished early: time limit of 1\u00a0min 30\u00a0s reached." in said
    assert "1 of 2 tasks start from records of run 7." in said
    assert "fused_matmul1 (plateau)" in said


def test_it_warns_on_stderr(play: Play, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    slow: targets.TargetDict = {"target": {"kind": "llvm"}, "device": "cpu", "label": "", "warning": "It is slow."}
    monkeypatch.setattr(targets, "resolve", lambda _target: slow)
    play(*BEGINNING, Finished("budget"))
    call_command("tune", "mlp", "--trials", "2", "--json")
    said = capsys.readouterr()
    assert "target: It is slow." in said.err
    assert json.loads(said.out)["status"] == "finished"


def test_it_exits_with_1_when_no_trial_was_valid(play: Play) -> None:
    play(HELLO, extracted(1), trial(0, None), Finished("budget"))
    with pytest.raises(CommandError, match="None of the 1 trials was valid") as failed:
        call_command("tune", "mlp", "--trials", "1")
    assert failed.value.returncode == 1


def test_it_exits_with_1_when_the_engine_failed(play: Play) -> None:
    play(HELLO, Failed("no such target"))
    with pytest.raises(CommandError, match="no such target") as failed:
        call_command("tune", "mlp")
    assert failed.value.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["resnet-99"], "network: There is no network"),
        (["mlp", "--layout", "NCHW"], "network_options.layout: There is no such option"),
        (["mlp", "--tasks", "a"], "tasks: Must be one or more whole numbers"),
        (["mlp", "--trials", "0"], "trials: Must be a whole number from 1"),
        (["mlp", "--trials-per-batch", "x"], "trials_per_batch: Must be"),
        (["matmul", "--option", "n"], "write NAME=VALUE"),
        (["matmul", "--option", "n=-1"], "network_options.n: Must be"),
        (["mlp", "--machine", "lab-9"], "machine: There is no machine 'lab-9'. Write 'any', or one of: none yet."),
        (["mlp", "--machines", "some"], "machines: Must be a number from 1 to 1000, or 'all' for all equal ones."),
        (["mlp", "--priority", "urgent"], "priority: Must be one of: low, normal, high."),
    ],
)
def test_it_exits_with_2_and_names_the_option_at_fault(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "broker_trouble", lambda: None)
    with pytest.raises(CommandError) as refused:
        call_command("tune", *arguments)
    assert says in str(refused.value)
    assert refused.value.returncode == 2
    assert not Run.objects.exists()


def test_ctrl_c_stops_the_run_and_keeps_what_was_measured(play: Play) -> None:
    play(*BEGINNING, {"do": "wait"})

    sender = when(Run.objects.filter(trials_done=2).exists, lambda: os.kill(os.getpid(), signal.SIGINT))
    call_command("tune", "mlp")
    sender.join(60)
    run = Run.objects.get()
    assert (run.status, run.trials_done) == ("stopped", 2)


def test_ctrl_c_leaves_no_run_that_has_just_been_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = runs.launch

    def interrupted(*given: Any, **options: Any) -> Run:
        run = launch(*given, **options)
        os.kill(os.getpid(), signal.SIGINT)
        return run

    claimed(make_run())  # It would have to wait for the device.
    monkeypatch.setattr(runs, "launch", interrupted)
    call_command("tune", "mlp")
    assert Run.objects.latest("pk").status == "stopped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_waiting_for_the_device_leaves_no_queued_run(play: Play, number: signal.Signals) -> None:
    """There may be no worker to take the run."""
    busy = claimed(make_run())
    waits = Run.objects.filter(status="queued")
    sender = when(waits.exists, lambda: os.kill(os.getpid(), number))
    call_command("tune", "mlp")
    sender.join(60)
    busy.refresh_from_db()
    assert busy.status == "running"
    assert Run.objects.exclude(pk=busy.pk).get().status == "stopped"


def test_it_survives_a_short_outage_of_the_database(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play(*BEGINNING, Finished("budget"))
    update, failures = RunProgress.update, [OperationalError("connection refused")]

    def unreachable_at_first(self: RunProgress) -> None:
        if failures:
            raise failures.pop()
        update(self)

    monkeypatch.setattr(RunProgress, "update", unreachable_at_first)
    call_command("tune", "mlp", "--trials", "2")
    assert Run.objects.get().status == "finished"
    assert not failures


def test_ctrl_c_stops_a_run_that_a_worker_took(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "wait_and_claim", lambda run, _shutdown: not run.claim())
    taken = when(Run.objects.filter(status="running").exists, lambda: os.kill(os.getpid(), signal.SIGINT))
    stopping = Run.objects.filter(status="stopping")
    worker = when(stopping.exists, lambda: stopping.update(status="stopped"))
    call_command("tune", "mlp")
    taken.join(60)
    worker.join(60)
    assert Run.objects.get().status == "stopped"


def test_it_waits_for_its_device(play: Play) -> None:
    play(*BEGINNING, Finished("budget"))
    busy = claimed(make_run())
    other = when(Run.objects.filter(status="queued").exists, lambda: busy.move("running", to="finished"))
    call_command("tune", "mlp", "--trials", "2")
    other.join(60)
    assert set(Run.objects.values_list("status", flat=True)) == {"finished"}


def test_it_tunes_with_another_engine(
    settings: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    older_tvm.name(settings, monkeypatch)
    settings.LEGACY_PYTHON = {"tvm0.9": Path("/no/such/python")}
    given = (
        "--engine",
        "autotvm",
        "--interpreter",
        "tvm0.9",
        "--tuner",
        "random",
        "--ops",
        "dense",
        "--target",
        "llvm",
    )
    with pytest.raises(CommandError, match="failed"):
        call_command("tune", "mlp", *given, "--json")
    run = json.loads(capsys.readouterr().out)
    assert (run["engine"], run["interpreter"], run["options"]["ops"]) == ("autotvm", "tvm0.9", ["dense"])
    assert "/no/such/python can't be started: [Errno 2]" in run["error"]


def test_it_names_an_option_that_the_engine_has_not(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    older_tvm.name(settings, monkeypatch)
    with pytest.raises(CommandError, match="trials_per_batch: There is no such option"):
        call_command("tune", "mlp", "--engine", "autotvm", "--trials-per-batch", "4", "--target", "llvm")


def test_its_place_in_the_queue_can_be_chosen(play: Play) -> None:
    play(*BEGINNING, Finished("budget"))
    call_command("tune", "mlp", "--trials", "2", "--priority", "high")
    assert Run.objects.get().priority == Run.Priority.HIGH


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The runs that workers were told of."""
    told: list[int] = []
    monkeypatch.setattr("tuning.queue.jobs.enqueue", lambda run: told.append(run.pk))
    return told


def test_a_run_for_another_machine_is_followed(
    enqueued: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_machine("lab-1", key=identity.key())
    other = make_machine("lab-2")
    seen: list[str | None] = []
    monkeypatch.setattr(RunProgress, "update", lambda self: seen.append(Run.objects.get().waits))
    waits = Run.objects.filter(status="queued")
    tuned = when(lambda: bool(seen) and waits.exists(), lambda: waits.update(status="finished", machine=other))
    call_command("tune", "mlp", "--machine", "lab-2", "--json")
    tuned.join(60)
    run = Run.objects.get()
    assert (run.chosen_machine, enqueued, seen[0]) == (other, [run.pk], "next on lab-2")
    assert json.loads(capsys.readouterr().out)["machine"] == "lab-2"


def test_this_machine_by_its_name_tunes_in_the_foreground(play: Play, enqueued: list[int]) -> None:
    here = make_machine("lab-1", key=identity.key())
    make_machine("lab-2")
    play(*BEGINNING, Finished("budget"))
    call_command("tune", "mlp", "--trials", "2", "--machine", "lab-1")
    assert (Run.objects.get().machine, enqueued) == (here, [])


def test_ctrl_c_stops_a_run_that_waits_for_another_machine(enqueued: list[int]) -> None:
    make_machine("lab-1", key=identity.key())
    make_machine("lab-2")
    sender = when(lambda: bool(enqueued), lambda: os.kill(os.getpid(), signal.SIGINT))
    call_command("tune", "mlp", "--machine", "any")
    sender.join(60)
    assert Run.objects.get().status == "stopped"


def test_other_machines_are_asked_to_measure_what_is_tuned_here(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    make_machine("lab-1", key=identity.key())
    make_machine("lab-2")
    play(*BEGINNING, Finished("budget"))
    invited: list[Any] = []

    def alone(run: Run, shutdown: threading.Event, invite: Any) -> str:
        invited.append(invite)
        return supervise(run, shutdown)

    monkeypatch.setattr(tune, "broker_trouble", lambda: None)
    monkeypatch.setattr(tune, "supervise", alone)
    call_command("tune", "mlp", "--trials", "2", "--machines", "2")
    assert (Run.objects.get().machines_wanted, invited) == (2, [jobs.invite])


def test_no_pool_is_begun_without_the_sites_broker(settings: Any) -> None:
    make_machine("lab-1", key=identity.key())
    make_machine("lab-2")
    settings.REDIS_URL = "redis://:secret@127.0.0.1:1/0"
    with pytest.raises(CommandError, match=r"^machines: Other machines can't be asked") as refused:
        call_command("tune", "mlp", "--machines", "all")
    assert "secret" not in str(refused.value)
    assert not Run.objects.exists()


def test_a_machine_that_isnt_the_sites_tunes_nothing_in_its_name() -> None:
    make_machine("lab-2")
    with pytest.raises(CommandError, match=r"^machine: This machine isn't one of the site's"):
        call_command("tune", "mlp")
    assert not Run.objects.exists()
