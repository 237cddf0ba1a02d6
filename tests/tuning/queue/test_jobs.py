"""Queued runs and a real Celery worker: claimed in turn, left alone when stopped, kept while the broker is down."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django import conf

from tests.engine_fixtures import Play
from tests.world import extracted, make_run, trial
from tuning.actions import runs, sweeping
from tuning.engines.wire.protocol import VERSION, Finished, Hello
from tuning.engines.wire.tracker import Address
from tuning.models import Run
from tuning.queue import jobs
from tuning.queue.celery import app, queue_of

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})
WORKER = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
from tuning.work import engine_process
engine_process.ENGINES["meta_schedule"] = "tests.fake_engine"
from tuning.queue.celery import app
app.worker_main(sys.argv[1:])
"""


@pytest.fixture
def worker(
    database_env: dict[str, str], play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start a worker as `up` does, but with the fake engine."""
    import os

    env = database_env | {"TVM_FAKE_ENGINE_SCRIPT": os.environ["TVM_FAKE_ENGINE_SCRIPT"]}
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        options = ["worker", "--pool=threads", "--concurrency=1", "--loglevel=warning", "-Q", queue_of("cpu")]
        command = [sys.executable, "-c", WORKER, *options, "--without-gossip", "--without-mingle"]
        with (tmp_path / "worker.log").open("ab") as log:
            started.append(subprocess.Popen(command, env=env, cwd=conf.settings.BASE_DIR, stdout=log, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.wait(30)
    app.control.purge()


def wait_for(run: Run, *statuses: str, trials: int = 0) -> Run:
    for _ in range(600):
        run.refresh_from_db()
        if run.status in statuses and run.trials_done >= trials:
            return run
        time.sleep(0.05)
    raise AssertionError(f"run {run.pk} is {run.status} with {run.trials_done} trials: {run.error}")


def test_a_worker_claims_queued_runs_in_turn(worker: Callable[[], object], play: Play) -> None:
    play(HELLO, extracted(1), trial(0), Finished("budget"))
    runs = [make_run(trials_budget=1) for _ in range(3)]
    for run in runs:
        jobs.enqueue(run)
    worker()
    ended = [wait_for(run, "finished") for run in runs]
    assert sorted(run.finished_at for run in ended if run.finished_at) == [run.finished_at for run in ended]
    assert all(run.enqueued_at for run in ended)


def test_a_queued_run_that_was_stopped_is_left_alone(worker: Callable[[], object], play: Play) -> None:
    play(HELLO, extracted(1), trial(0), Finished("budget"))
    stopped, other = make_run(trials_budget=1), make_run(trials_budget=1)
    for run in (stopped, other):
        jobs.enqueue(run)
    runs.stop(stopped)
    worker()
    wait_for(other, "finished")
    assert wait_for(stopped, "stopped").trials_done == 0


def test_a_worker_that_shuts_down_interrupts_its_run(worker: Callable[[], subprocess.Popen[bytes]], play: Play) -> None:
    play(HELLO, extracted(1), trial(0), {"do": "wait"})
    run = make_run()
    jobs.enqueue(run)
    process = worker()
    wait_for(run, "running", trials=1)
    process.terminate()
    assert process.wait(30) == 0
    assert wait_for(run, "interrupted").can_resume


def test_a_run_of_a_killed_worker_is_interrupted_by_the_sweep_and_resumed(
    worker: Callable[[], subprocess.Popen[bytes]], play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(HELLO, extracted(1), trial(0), {"do": "wait"})
    run = make_run(trials_budget=2)
    jobs.enqueue(run)
    process = worker()
    wait_for(run, "running", trials=1)
    process.kill()
    process.wait()
    monkeypatch.setattr("tuning.models.lifecycle.LEASE", timedelta(seconds=-5))
    assert sweeping.sweep() == 1
    run = wait_for(run, "interrupted")

    play(HELLO, extracted(1), trial(0), trial(0), Finished("budget"))
    runs.resume(run)
    worker()
    assert wait_for(run, "finished").trials_done == 2


def test_a_run_stays_queued_while_the_broker_is_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(app.conf, "broker_url", f"redis+socket://{tmp_path}/nobody.sock")
    monkeypatch.setattr(app, "_pool", None)
    monkeypatch.setattr(app.amqp, "_producer_pool", None)
    run = make_run()
    jobs.enqueue(run)
    run.refresh_from_db()
    assert (run.status, run.enqueued_at) == ("queued", None)
    assert [record.getMessage() for record in caplog.records if "stays queued" in record.getMessage()]


def test_remote_runs_share_a_worker_and_dont_wait_there_for_their_device(
    play: Play, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.TRACKERS = {"lab": Address("127.0.0.1", 9)}
    told: list[int] = []
    monkeypatch.setattr(jobs.tune, "apply_async", lambda args, queue, retry: told.append(args[0]))
    play(HELLO, Finished("stopped"))
    holder, second, third = (make_run(device="rpc:lab/board") for _ in range(3))
    assert queue_of(holder.device) == queue_of("rpc:lab/key") == "device.rpc:lab"
    assert holder.claim()
    jobs.tune(second.pk)
    second.refresh_from_db()
    assert second.status == "queued", "its job didn't wait"
    holder.move("running", to="stopped")
    jobs.tune(second.pk)
    second.refresh_from_db()
    assert second.status == "failed"
    assert told == [third.pk]


def test_a_run_fails_if_its_tracker_isnt_allowed_anymore(play: Play) -> None:
    play(HELLO, Finished("budget"))
    run = make_run(device="rpc:lab/board")
    jobs.tune(run.pk)
    run.refresh_from_db()
    assert run.status == "failed"
    assert run.error == "There is no tracker 'lab'. None is allowed: see TUNEBOARD_TRACKERS."
