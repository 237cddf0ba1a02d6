"""What runs, extractions, compilations and deliveries have in common: one holder, one end, and receivers that hear of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from tests.world import make_compilation, make_extraction, make_machine, make_network, make_run, measured_run
from tuning.models import Compilation, Delivery, Extraction, Leased, Queued, Run, ended
from tuning.models.lifecycle import LEASE, TELL_AGAIN

pytestmark = pytest.mark.django_db(transaction=True)


def queued_compilation() -> Compilation:
    run = measured_run()
    run.move("running", to="finished")
    return make_compilation(run, status="queued", stage="build", verified=None, finished_at=None)


LEASED: dict[str, Callable[[], Leased]] = {
    "run": make_run,
    "extraction": lambda: make_extraction(make_network(), status="queued", finished_at=None),
    "compilation": queued_compilation,
}
KINDS: dict[str, Callable[[], Queued]] = {
    **LEASED,
    "delivery": lambda: Delivery.objects.create(url="http://127.0.0.1/", kind="test", message={}),
}
each_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
each_leased_kind = pytest.mark.parametrize("make", LEASED.values(), ids=LEASED)


def again(row: Any) -> Any:
    """The row as another process reads it."""
    return type(row).objects.get(pk=row.pk)


def rows(row: Any) -> Any:
    return type(row).objects


@pytest.fixture
def heard() -> Iterator[list[Queued]]:
    found: list[Queued] = []

    def receive(row: Queued, **_: Any) -> None:
        found.append(row)

    ended.connect(receive)
    yield found
    ended.disconnect(receive)


@each_kind
def test_one_process_claims_it(make: Callable[[], Queued]) -> None:
    row = make()
    other = again(row)
    assert row.claim()
    assert not other.claim()
    assert row.held().exists()
    assert not other.held().exists()


@each_kind
def test_it_ends_once_and_receivers_hear_of_it(make: Callable[[], Queued], heard: list[Queued]) -> None:
    row = make()
    assert row.claim()
    assert row.finish(to="failed")
    assert heard == [row]
    assert not row.finish(to="failed")
    assert heard == [row]


@each_kind
def test_whoever_lost_it_ends_nothing(make: Callable[[], Queued], heard: list[Queued]) -> None:
    row = make()
    assert row.claim()
    taken = {name: 7 if name == "attempts" else "another" for name in row.hold}
    rows(row).update(**taken)
    assert not row.finish(to="failed")
    assert again(row).status == row.status
    assert heard == []


@each_kind
def test_it_doesnt_end_if_a_receiver_fails_to_store_something(make: Callable[[], Queued]) -> None:
    def fails(**_: Any) -> None:
        raise DatabaseError("disk full")

    row = make()
    assert row.claim()
    ended.connect(fails)
    try:
        with pytest.raises(DatabaseError):
            row.finish(to="failed")
    finally:
        ended.disconnect(fails)
    assert again(row).held().exists()


@each_kind
def test_a_row_that_no_worker_heard_of_is_forgotten(make: Callable[[], Queued]) -> None:
    row = make()
    assert list(rows(row).forgotten()) == [row]
    row.announced()
    assert not rows(row).forgotten().exists()
    rows(row).update(enqueued_at=timezone.now() - TELL_AGAIN - timedelta(seconds=1))
    assert list(rows(row).forgotten()) == [row]
    assert row.claim()
    assert not rows(row).forgotten().exists()


@each_leased_kind
def test_a_row_whose_lease_ran_out_is_abandoned_unless_it_is_renewed(make: Callable[[], Leased]) -> None:
    row = make()
    assert row.claim()
    assert not rows(row).abandoned().exists()
    rows(row).update(heartbeat_at=timezone.now() - LEASE - timedelta(seconds=1))
    (seen,) = rows(row).abandoned()
    assert row.renew()
    assert not seen.end_abandoned(), "it was renewed meanwhile"
    rows(row).update(heartbeat_at=timezone.now() - LEASE - timedelta(seconds=1))
    assert again(row).end_abandoned()
    assert not row.renew()
    assert "worker stopped responding" in again(row).error


def test_a_run_says_whose_worker_stopped_responding() -> None:
    run = make_run()
    run.taker = make_machine("lab-2")
    assert run.claim()
    rows(run).update(heartbeat_at=timezone.now() - LEASE - timedelta(seconds=1))
    assert again(run).end_abandoned()
    assert again(run).error.startswith("The worker on lab-2 stopped responding.")


@pytest.mark.parametrize(("done", "status"), [(64, "finished"), (63, "interrupted")])
def test_a_run_whose_worker_dies_while_it_confirms_has_finished_if_its_budget_is_used_up(
    done: int, status: str
) -> None:
    run = make_run()
    assert run.claim()
    rows(run).update(heartbeat_at=timezone.now() - LEASE - timedelta(seconds=1), phase="confirming", trials_done=done)
    assert again(run).end_abandoned()
    ended = again(run)
    assert (ended.status, ended.finish_reason) == (status, "budget" if status == "finished" else None)


@each_leased_kind
def test_a_row_that_is_queued_again_is_announced_anew(make: Callable[[], Leased]) -> None:
    row = make()
    row.announced()
    assert row.claim()
    more = {"stage": "build"} if isinstance(row, Compilation) else {}
    assert row.requeue("running", where=row.hold, **more)
    assert list(rows(row).forgotten()) == [row]
    assert row.claim()


def test_every_process_with_django_connects_the_webhooks_receiver(
    database_env: dict[str, str], project_root: Path
) -> None:
    script = """
import django
django.setup()
from tuning.models import Compilation, Extraction, Run, ended
print(*(ended.has_listeners(kind) for kind in (Run, Compilation, Extraction)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=database_env, cwd=project_root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "False"]


def test_a_stopping_run_still_belongs_to_its_supervisor() -> None:
    run = make_run()
    assert run.claim()
    assert Run.objects.get().move("running", to="stopping")
    assert run.renew()
    assert run.status == "stopping"
    assert run.finish(to="stopped")


def test_a_failed_extraction_can_be_queued_again() -> None:
    extraction = make_extraction(make_network(), status="failed", error="why", finished_at=timezone.now())
    assert extraction.requeue("failed")
    assert (extraction.error, extraction.finished_at) == (None, None)
    assert Extraction.objects.get().claim()
