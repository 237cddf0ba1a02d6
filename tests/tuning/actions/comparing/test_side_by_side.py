"""Runs are measured side by side on request: what is refused, and what it keeps from happening."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.world import make_compilation, make_network, make_run, measured_run, set_beside
from tuning.actions import curation, purging, sweeping
from tuning.actions.comparing import side_by_side
from tuning.engines.wire.versions import PINS
from tuning.models import AuditEntry, Compilation, Run, SideBySide
from tuning.queue import celery, jobs
from tuning.reads.comparing import runs_of
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db
Status = SideBySide.Status


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Enqueued jobs: the measurement and the queue."""
    sent: list[tuple[int, str]] = []
    monkeypatch.setattr(
        jobs.measure_side_by_side, "apply_async", lambda args, queue, retry: sent.append((args[0], queue))
    )
    return sent


def ended(**values: Any) -> Run:
    run = measured_run(**values)
    assert run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return run


def for_target(target: dict[str, Any]) -> Run:
    run = ended()
    run.target = target
    run.save()
    return run


def asked(*runs: Run) -> SideBySide:
    return side_by_side.measure(runs_of(None, ",".join(str(run.pk) for run in runs)), None)


def test_it_waits_for_the_runs_device(told: list[Any]) -> None:
    first, second = ended(), ended()
    made = asked(second, first)
    assert told == [(made.pk, celery.queue_of("cpu"))]
    assert (made.status, made.device, made.run_keys) == ("queued", "cpu", [first.pk, second.pk])
    assert set(made.runs.all()) == {first, second}
    entry = AuditEntry.objects.get(action="side_by_side.start")
    assert (entry.object_kind, entry.object_id, entry.object_name) == ("side_by_side", made.pk, str(made))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (lambda: ended(synthetic=True), "is synthetic: its records can't be measured."),
        (lambda: ended(engine="autotvm"), "was tuned with an older TVM's autotvm: only MetaSchedule's records can be"),
        (
            lambda: ended(device="rpc:lab/pi"),
            "was measured on rpc:lab/pi: that is done side by side on the site's own machines",
        ),
        (lambda: ended(network=None), "isn't recorded, so nobody knows that it computes the same."),
        (lambda: ended(network=make_network()), "These runs are of different networks:"),
        (lambda: for_target({"kind": "llvm"}), "These runs are of different targets:"),
        (lambda: ended(device="cuda:0"), "These runs are of different devices:"),
        (lambda: ended(versions={**PINS, "apache-tvm": "0.26.0"}), "can't be measured again. Its records were made by"),
        (make_run, "There is no task of which each of these runs has a valid record."),
        (lambda: ended(latencies=[(0, None)]), "There is no task of which each of these runs has a valid record."),
    ],
    ids=[
        "synthetic",
        "older",
        "remote",
        "network-unknown",
        "network",
        "target",
        "device",
        "version",
        "empty",
        "failed",
    ],
)
def test_it_refuses_what_cannot_be_compared_so(told: list[Any], other: Callable[[], Run], why: str) -> None:
    run = ended()
    with pytest.raises(Conflict) as raised:
        asked(run, other())
    assert why in str(raised.value)
    assert not SideBySide.objects.exists()
    assert told == []
    assert AuditEntry.objects.get(action="side_by_side.start").refused


def test_the_same_runs_are_measured_once_at_a_time(told: list[Any]) -> None:
    first, second, third = ended(), ended(), ended()
    made = asked(first, second)
    with pytest.raises(Conflict, match="being measured side by side already"):
        asked(second, first)
    asked(first, second, third)
    side_by_side.cancel(made)
    assert made.status == "cancelled"
    asked(first, second)
    with pytest.raises(Conflict, match="is cancelled: only a queued or running one"):
        side_by_side.cancel(made)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_ask_at_once_one_is_refused(told: list[Any]) -> None:
    keys = [run.pk for run in (ended(), ended())]
    start = threading.Barrier(2)
    refused: list[str] = []

    def ask(order: list[int]) -> None:
        runs = runs_of(None, ",".join(map(str, order)))
        start.wait()
        try:
            side_by_side.measure(runs, None)
        except Conflict as conflict:
            refused.append(str(conflict))
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=(order,)) for order in (keys, keys[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert SideBySide.objects.count() == len(told) == 1
    assert refused == ["These runs are being measured side by side already."]


@pytest.mark.parametrize("runs", [None, "1,2", [1], ["1", "2"], [True, False], [1, 1], [1, 10**30], list(range(1, 10))])
def test_it_refuses_what_is_no_choice_of_runs(runs: Any) -> None:
    with pytest.raises(Invalid) as raised:
        side_by_side.runs_in({"runs": runs}, None)
    assert list(raised.value.fields) == ["runs"]


def test_it_names_a_field_that_is_not_known() -> None:
    with pytest.raises(Invalid) as raised:
        side_by_side.runs_in({"run": [1, 2]}, None)
    assert list(raised.value.fields) == ["run"]


def test_a_run_is_not_deleted_while_it_is_measured() -> None:
    runs = [ended(), ended()]
    row = set_beside(runs)
    assert row.claim()
    with pytest.raises(Conflict, match="measured side by side with others: cancel that"):
        curation.delete(runs[0])
    side_by_side.cancel(row)
    assert row.finish(Status.CANCELLING, to=Status.CANCELLED)
    curation.delete(runs[0])


def test_what_waits_is_not_measured_once_a_run_is_deleted_and_goes_with_it(settings: Any, tmp_path: Any) -> None:
    settings.VAR = tmp_path
    runs = [ended(), ended()]
    set_beside(runs)
    curation.delete(runs[1])
    assert jobs._waiting("cpu", None) is None
    long_ago = timezone.now() - timedelta(days=settings.KEEP_DELETED_DAYS + 1)
    Run.everything.filter(pk=runs[1].pk).update(deleted_at=long_ago)
    assert purging.purge() == 1
    assert not SideBySide.objects.exists()
    assert Run.objects.get() == runs[0]


def test_what_was_queued_first_comes_first() -> None:
    runs = [ended(), ended()]
    early, late = (timezone.now() + timedelta(minutes=minutes) for minutes in (1, 2))
    row = set_beside(runs, queued_at=late)
    proof = make_compilation(runs[0], status=Compilation.Status.QUEUED, verified=None, queued_at=early)
    assert jobs._waiting("cpu", None) == proof
    proof.move("queued", to="cancelled")
    assert jobs._waiting("cpu", None) == row
    run = make_run(queued_at=early)
    assert jobs._waiting("cpu", None) == run
    assert jobs._waiting("cuda:0", None) is None


def test_the_sweep_ends_one_whose_worker_died_and_announces_what_was_lost(told: list[Any], settings: Any) -> None:
    runs = [ended(), ended()]
    dead, lost = set_beside(runs), set_beside(runs)
    assert dead.claim()
    SideBySide.objects.filter(pk=dead.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    sweeping.sweep()
    dead.refresh_from_db()
    assert dead.status == "failed"
    assert told == [(lost.pk, celery.queue_of("cpu"))]
