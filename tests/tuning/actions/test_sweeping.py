"""The sweep: runs whose supervisor is gone, and queued runs that the broker forgot."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.world import claimed, make_compilation, make_run
from tuning.actions import sweeping
from tuning.engines.wire.tracker import Address
from tuning.models import LEASE, TELL_AGAIN, Run
from tuning.queue import jobs

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    told: list[int] = []
    monkeypatch.setattr(jobs, "enqueue", lambda run: told.append(run.pk))
    return told


def ago(span: timedelta) -> Any:
    return timezone.now() - span - timedelta(seconds=1)


@pytest.mark.parametrize("status", ["running", "stopping"])
def test_it_interrupts_a_run_whose_lease_ran_out(status: str) -> None:
    run = claimed(make_run())
    Run.objects.filter(pk=run.pk).update(heartbeat_at=ago(LEASE), status=status)
    assert sweeping.sweep() == 1
    run.refresh_from_db()
    assert run.status == "interrupted"
    assert "Resume" in str(run.error)
    assert run.can_resume


@pytest.mark.parametrize("done", [63, 64])
def test_it_removes_what_a_run_that_only_confirmed_had_built(done: int) -> None:
    run = claimed(make_run())
    Run.objects.filter(pk=run.pk).update(heartbeat_at=ago(LEASE), phase="confirming", trials_done=done)
    built = run.work_dir / "artifacts" / "candidate.ll"
    built.parent.mkdir(parents=True)
    built.touch()
    assert sweeping.sweep() == 1
    assert built.parent.exists() == (done < 64), "a run that is resumed has an engine that removes it"


def test_it_interrupts_a_run_whose_worker_died_before_the_clock_was_set_back() -> None:
    run = claimed(make_run())
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() + timedelta(hours=1))
    assert sweeping.sweep() == 1
    run.refresh_from_db()
    assert run.status == "interrupted"


def test_it_ignores_a_run_with_a_valid_lease() -> None:
    claimed(make_run())
    assert sweeping.sweep() == 0


def test_it_ignores_a_run_that_was_claimed_again() -> None:
    run = claimed(make_run())
    Run.objects.filter(pk=run.pk).update(heartbeat_at=ago(LEASE))
    seen = Run.objects.get(pk=run.pk)
    Run.objects.filter(pk=run.pk).update(lease="anew", heartbeat_at=timezone.now())
    assert not seen.end_abandoned()
    assert Run.objects.get(pk=run.pk).status == "running"


@pytest.mark.parametrize("told", [None, -TELL_AGAIN - timedelta(seconds=1), timedelta(hours=1)])
def test_it_enqueues_again_a_run_that_no_worker_took(told: timedelta | None, enqueued: list[int]) -> None:
    """The last one was told before the clock was set back."""
    make_run(status="stopped")
    run = make_run(enqueued_at=None if told is None else timezone.now() + told)
    sweeping.sweep()
    assert enqueued == [run.pk]


def test_it_ends_runs_for_a_tracker_that_is_not_allowed_anymore(settings: Any, enqueued: list[int]) -> None:
    settings.TRACKERS = {"lab": Address("127.0.0.1", 9)}
    allowed, gone = make_run(device="rpc:lab/board"), make_run(device="rpc:old/board")
    sweeping.sweep()
    gone.refresh_from_db()
    assert (gone.status, gone.error) == ("failed", "There is no tracker 'old'. Allowed: lab.")
    assert gone.can_resume
    assert enqueued == [allowed.pk]


@pytest.mark.parametrize(("verified", "status"), [(None, "failed"), (True, "finished")])
def test_it_ends_proofs_for_a_tracker_that_is_not_allowed_anymore(
    settings: Any, verified: bool | None, status: str
) -> None:
    settings.TRACKERS = {}
    run = make_run(device="rpc:old/board", status="finished")
    proof = make_compilation(run, status="queued", verified=verified)
    sweeping.sweep()
    proof.refresh_from_db()
    assert (proof.status, proof.error) == (
        status,
        "There is no tracker 'old'. None is allowed: see TUNEBOARD_TRACKERS.",
    )


def test_it_waits_for_an_answer_before_it_enqueues_again(enqueued: list[int]) -> None:
    make_run(enqueued_at=timezone.now())
    sweeping.sweep()
    assert enqueued == []


def test_thousands_of_queued_runs_take_one_message(enqueued: list[int]) -> None:
    first, *_ = (make_run() for _ in range(5))
    sweeping.sweep()
    assert enqueued == [first.pk], "whoever takes it goes on with the others"


def test_it_enqueues_nothing_while_the_device_is_busy(enqueued: list[int]) -> None:
    claimed(make_run())
    make_run()
    elsewhere = make_run(device="cuda:0")
    sweeping.sweep()
    assert enqueued == [elsewhere.pk]
