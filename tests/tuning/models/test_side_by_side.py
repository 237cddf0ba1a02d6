"""Who measures runs side by side, when, and who sees it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dashboard.accounts import put_into_role
from tests.world import make_machine, make_run, make_user, measured_run, set_beside
from tuning.models import PoolMember, Project, Run, SideBySide
from tuning.work.pool import taking_part

pytestmark = pytest.mark.django_db


def ended(**values: Any) -> Run:
    run = measured_run(**values)
    assert run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return run


def pair() -> list[Run]:
    return [ended(), ended()]


def waiting(device: str = "cpu", machine: Any = None) -> list[int]:
    return [row.pk for row in SideBySide.objects.waiting_for(device, machine)]


def test_a_device_does_nothing_else_meanwhile() -> None:
    row, next_run = set_beside(pair()), make_run()
    assert row.claim()
    assert (row.status, row.phase) == ("running", "loading")
    assert not Run.objects.device_is_free("cpu")
    assert not next_run.claim()
    assert not set_beside(pair_of(row)).claim()
    assert Run.objects.device_is_free("cuda:0")
    assert row.finish(to=SideBySide.Status.FINISHED, measured=[])
    assert next_run.claim()
    assert not set_beside(pair_of(row)).claim(), "a run is tuned there"


def pair_of(row: SideBySide) -> list[Run]:
    return list(row.runs.all())


def test_one_whose_worker_died_holds_no_device_and_ends() -> None:
    row = set_beside(pair())
    assert row.claim()
    SideBySide.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert Run.objects.device_is_free("cpu")
    (dead,) = SideBySide.objects.abandoned()
    assert dead.end_abandoned()
    assert (dead.status, dead.error) == ("failed", "The worker stopped responding. Measure again.")


def test_a_machine_joins_no_pool_meanwhile() -> None:
    lab = make_machine()
    runs = pair()
    row = set_beside(runs)
    row.taker = lab
    assert row.claim()
    member = PoolMember.objects.create(run=runs[0], machine=lab, device="cpu", pool="p")
    assert not taking_part.claim(member)
    assert lab.is_busy
    assert row.finish(to=SideBySide.Status.FINISHED)
    assert taking_part.claim(member)


def test_it_waits_for_a_machine_like_one_that_tuned_a_run_of_it() -> None:
    lab, twin, other = make_machine("lab"), make_machine("twin"), make_machine("other", cpu="cortex-a72")
    runs = pair()
    row = set_beside(runs)
    assert waiting(machine=other) == [row.pk], "nobody knows where they were tuned"
    Run.objects.filter(pk=runs[1].pk).update(machine=lab)
    assert [waiting(machine=one) for one in (lab, twin, other)] == [[row.pk], [row.pk], []]
    assert waiting("cuda:0", lab) == []


def test_it_is_nothing_without_one_of_its_runs() -> None:
    runs = pair()
    row = set_beside(runs)
    assert list(SideBySide.objects.kept()) == [row]
    Run.everything.filter(pk=runs[1].pk).update(deleted_at=timezone.now())
    assert not SideBySide.objects.kept().exists()
    assert not SideBySide.objects.forgotten().exists()
    assert waiting() == []


def test_it_is_found_by_its_runs_in_whatever_order() -> None:
    first, second, third = (ended() for _ in range(3))
    row, wider = set_beside([second, first]), set_beside([first, second, third])
    again = set_beside([first, second])
    assert list(SideBySide.objects.of([first.pk, second.pk])) == [again, row]
    assert list(SideBySide.objects.of([third.pk, first.pk, second.pk])) == [wider]
    assert not SideBySide.objects.of([first.pk]).exists()
    assert row.run_keys == sorted([first.pk, second.pk])


def test_only_who_sees_all_of_its_runs_sees_it() -> None:
    vision = Project.objects.create(name="vision")
    runs = [ended(), ended(project=vision)]
    row, own = set_beside(runs), set_beside(pair())
    person, admin = make_user("operator"), make_user("admin")
    assert set(SideBySide.objects.seen_by(person)) == {own}
    put_into_role(person, "viewer", vision)
    fresh = type(person).objects.get(pk=person.pk)
    assert set(SideBySide.objects.seen_by(fresh)) == {own, row}
    assert set(SideBySide.objects.seen_by(admin)) == set(SideBySide.objects.seen_by(None)) == {own, row}


def test_of_a_free_device_the_first_that_waits_is_announced_again() -> None:
    runs = pair()
    first, second = set_beside(runs), set_beside(runs)
    assert list(SideBySide.objects.forgotten()) == [first]
    first.announced()
    assert not SideBySide.objects.forgotten().exists()
    assert second.claim()
    assert not SideBySide.objects.forgotten().exists(), "the device is busy"
