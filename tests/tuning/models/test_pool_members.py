"""Members of a run's pool hold their machine's device as a live run does, by the database's clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests.world import claimed, make_machine, make_run
from tuning.actions import sweeping
from tuning.models import Machine, PoolMember, Run
from tuning.models.fleet.pool_member import ANSWER, HELD, REST
from tuning.work.pool.taking_part import claim

pytestmark = pytest.mark.django_db


def invited(machine: Machine, run: Run | None = None) -> PoolMember:
    run = run or claimed(make_run(machines_wanted=2))
    return PoolMember.objects.create(run=run, machine=machine, device="cpu", pool=f"{run.pk}.a")


def passed(member: PoolMember, span: timedelta) -> None:
    """So long ago it was renewed, invited, and has left."""
    PoolMember.objects.filter(pk=member.pk).update(heartbeat_at=Now() - span, invited_at=Now() - span)
    PoolMember.objects.filter(pk=member.pk, left_at__isnull=False).update(left_at=Now() - span)


def test_a_member_holds_its_device_until_it_leaves() -> None:
    lab, other = make_machine("lab-1"), make_machine("lab-2")
    member = invited(lab)
    assert Run.objects.device_is_free("cpu", lab), "an invitation holds nothing"
    assert claim(member)
    assert not Run.objects.device_is_free("cpu", lab)
    assert Run.objects.device_is_free("cpu", other)
    assert lab.state == "tuning"
    run = make_run()
    run.taker = lab
    assert not run.claim()
    assert member.move(*PoolMember.ACTIVE, to="left", reason="drained")
    assert member.left_at
    assert run.claim()


def test_a_device_in_use_cannot_be_taken() -> None:
    lab = make_machine("lab-1")
    run = make_run()
    run.taker = lab
    assert run.claim()
    assert not claim(invited(lab, make_run(machines_wanted=2)))
    other = make_machine("lab-2")
    pool = claimed(make_run(machines_wanted=2, device="cuda:0"))
    assert claim(invited(other, pool))
    assert not claim(invited(other, pool))


def test_the_runs_own_machine_can_be_a_member() -> None:
    lab = make_machine("lab-1")
    run = make_run(machines_wanted=2)
    run.taker = lab
    assert run.claim()
    assert claim(invited(lab, run))


def test_an_invitation_that_was_withdrawn_cannot_be_accepted() -> None:
    member = invited(make_machine())
    assert PoolMember.objects.get(pk=member.pk).move("invited", to="left")
    assert not claim(member)


def test_a_member_that_is_not_renewed_holds_nothing() -> None:
    lab = make_machine("lab-1")
    member = invited(lab)
    assert claim(member)
    passed(member, HELD + timedelta(seconds=1))
    assert Run.objects.device_is_free("cpu", lab)
    following = invited(lab, member.run)
    assert claim(following)
    member.refresh_from_db()
    assert (member.state, member.reason) == ("lost", "It stopped responding.")
    assert not member.renew()
    assert following.renew()


def test_a_member_of_a_run_that_has_ended_is_told_so_when_it_renews() -> None:
    member = invited(make_machine())
    assert claim(member)
    assert member.renew()
    assert member.run.finish(to="finished")
    assert not member.renew()


def test_who_does_not_answer_or_has_just_left_is_not_asked_again_for_a_while() -> None:
    member = invited(make_machine())
    assert not PoolMember.objects.unanswered().exists()
    passed(member, ANSWER + timedelta(seconds=1))
    assert PoolMember.objects.unanswered().get() == member
    assert member.move("invited", to="left")
    assert PoolMember.objects.not_to_be_asked().get() == member
    passed(member, REST + timedelta(seconds=1))
    assert not PoolMember.objects.not_to_be_asked().exists()


def test_members_of_a_pool_that_nobody_looks_after_are_lost_in_the_end() -> None:
    member = invited(make_machine("lab-1"))
    assert claim(member)
    assert PoolMember.objects.lose() == 0
    passed(member, HELD + timedelta(seconds=1))
    sweeping.sweep()
    member.refresh_from_db()
    assert (member.state, member.reason) == ("lost", "It stopped responding.")
    assert member.left_at
