"""Admins drain machines, let them go on, and forget those that are gone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.world import make_machine, make_roofline, make_run, on
from tuning.actions.machines import steering
from tuning.models import LOST, AuditEntry, Machine
from tuning.validation import Conflict

pytestmark = pytest.mark.django_db


@pytest.fixture
def machine() -> Machine:
    return make_machine("lab-1")


def acts() -> list[tuple[str, str, bool]]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", "object_name", "refused"))


def lose(machine: Machine) -> None:
    Machine.objects.filter(pk=machine.pk).update(heartbeat_at=timezone.now() - LOST - timedelta(seconds=1))


def test_a_drained_machine_takes_nothing_until_it_is_resumed(machine: Machine) -> None:
    run = on(machine)
    assert steering.drain(machine).state == "draining"
    run.finish(to="finished")
    assert machine.state == "drained"
    assert not Machine.objects.taking_work().exists()
    assert steering.resume(machine).state == "idle"
    assert list(Machine.objects.taking_work()) == [machine]
    assert acts() == [("machine.drain", "lab-1", False), ("machine.resume", "lab-1", False)]


def test_nothing_is_drained_or_resumed_twice(machine: Machine) -> None:
    with pytest.raises(Conflict, match="isn't being drained"):
        steering.resume(machine)
    steering.drain(machine)
    with pytest.raises(Conflict, match="already being drained"):
        steering.drain(machine)
    assert [refused for _, _, refused in acts()] == [True, False, True]


def test_only_a_lost_or_drained_machine_is_forgotten(machine: Machine) -> None:
    with pytest.raises(Conflict, match="lab-1 is idle: drain it"):
        steering.forget(machine)
    steering.drain(machine)
    steering.forget(machine)
    assert not Machine.objects.exists()
    lost = make_machine("lab-2")
    lose(lost)
    steering.forget(lost)
    assert not Machine.objects.exists()
    assert ("machine.forget", "lab-2", False) in acts()


def test_its_runs_keep_its_name(machine: Machine) -> None:
    run = on(machine)
    run.finish(to="finished")
    lose(machine)
    steering.forget(machine)
    run.refresh_from_db()
    assert run.machine_name == "lab-1"


def test_a_machine_that_a_queued_run_waits_for_alone_is_kept(machine: Machine) -> None:
    make_run(chosen_machine=machine)
    lose(machine)
    with pytest.raises(Conflict, match="1 queued run waits for lab-1 alone"):
        steering.forget(machine)
    assert Machine.objects.exists()


def test_a_roofline_is_asked_for_again_once(machine: Machine) -> None:
    with pytest.raises(Conflict, match="has no roofline yet"):
        steering.measure_again(machine)
    roofline = make_roofline(machine)
    other = make_roofline(make_machine("lab-2"))
    steering.measure_again(machine)
    with pytest.raises(Conflict, match="already"):
        steering.measure_again(machine)
    for row in (roofline, other):
        row.refresh_from_db()
    assert roofline.asked_at
    assert other.asked_at is None
    assert acts() == [("machine.measure_again", "lab-1", refused) for refused in (True, False, True)]
