"""One run at a time per device: which one gets it, and the places of those that wait."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from tests.world import claimed, make_run
from tuning.models import Run

pytestmark = pytest.mark.django_db


def test_a_run_is_claimed_once() -> None:
    run = make_run()
    other = Run.objects.get(pk=run.pk)
    assert run.claim()
    assert not other.claim()
    assert Run.objects.get(pk=run.pk).lease == run.lease


def test_a_device_is_claimed_once() -> None:
    first, second, elsewhere = make_run(), make_run(), make_run(device="cuda:0")
    assert first.claim()
    assert not second.claim()
    assert elsewhere.claim()
    first.move("running", to="finished")
    assert second.claim()


def test_the_database_itself_refuses_two_live_runs_on_a_device() -> None:
    claimed(make_run())
    with pytest.raises(IntegrityError), transaction.atomic():
        make_run(status="stopping")


def test_a_waiting_run_knows_its_place() -> None:
    now = timezone.now()
    running = claimed(make_run(queued_at=now))
    first, second, third = (make_run(queued_at=now + timedelta(seconds=second)) for second in (1, 2, 2))
    make_run(device="cuda:0", queued_at=now)
    assert [run.place for run in (running, first, second, third)] == [None, 1, 2, 3]


def test_a_run_that_was_claimed_meanwhile_isnt_ahead_of_itself() -> None:
    run = make_run()
    claimed(Run.objects.get(pk=run.pk))
    assert run.place == 0


def test_a_status_changes_only_from_the_expected_one() -> None:
    run = make_run(status="finished")
    assert not run.move("queued", "running", to="stopped")
    assert Run.objects.get(pk=run.pk).status == "finished"


def test_a_lease_is_renewed_only_by_its_holder() -> None:
    run = claimed(make_run())
    Run.objects.update(status="stopping", trials_budget=99)
    assert run.renew(elapsed_s=3.5)
    assert (run.status, run.trials_budget, run.time_limit_s) == ("stopping", 99, None), "what users want now"
    assert Run.objects.get(pk=run.pk).elapsed_s == 3.5
    run.lease = "another"
    assert not run.renew(elapsed_s=9.0)
    assert Run.objects.get(pk=run.pk).elapsed_s == 3.5
