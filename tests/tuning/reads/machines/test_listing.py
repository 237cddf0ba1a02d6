"""What is shown of machines: their state and since when, their work, their queue and their last hour."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.world import (
    make_compilation,
    make_machine,
    make_run,
    make_tasks,
    make_user,
    on,
    record_trials,
    set_beside,
    trial,
)
from tuning.actions import members, projects
from tuning.host.machine import identity
from tuning.models import LOST, Machine, Needs, PoolMember, Project, Run
from tuning.reads.device_status import ELSEWHERE
from tuning.reads.machines.listing import MachineDict, machines, states
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


def shown(name: str, user: Any = None) -> MachineDict:
    (found,) = [one for one in machines(user)["machines"] if one["name"] == name]
    return found


def test_it_shows_what_a_machine_is() -> None:
    make_machine("lab-1", key=identity.key(), memory=2**34, load={"average": [0.5, 0.4, 0.3]})
    make_machine("lab-2", cpu="", cores=0, target=None)
    one, two = shown("lab-1"), shown("lab-2")
    assert (one["here"], one["state"], one["cpu"], one["cores"], one["devices"]) == (True, "idle", "znver4", 2, ["cpu"])
    assert (one["memory"], one["load"]) == (2**34, {"average": [0.5, 0.4, 0.3]})
    assert one["since"] == one["joined_at"]
    assert (two["here"], two["cpu"], two["cores"], two["target"]) == (False, None, None, None)


def test_it_shows_what_is_tuned_and_proven_there() -> None:
    machine = make_machine("lab-1")
    run = on(machine, name="mine")
    proof = make_compilation(
        make_run(status="finished", name="theirs"), machine=machine, stage="prove", status="running"
    )
    found = shown("lab-1")
    assert found["state"] == "tuning"
    assert run.started_at
    assert found["since"] == run.started_at.isoformat()
    assert [(one["kind"], one["id"], one["name"]) for one in found["work"]] == [
        ("run", run.pk, "mine"),
        ("compilation", proof.pk, "theirs"),
    ]


def test_it_shows_which_runs_are_measured_side_by_side_there() -> None:
    runs = [make_run(status="finished", name=name) for name in ("one", "two")]
    row = set_beside(runs)
    row.taker = make_machine("lab-1")
    assert row.claim()
    found = shown("lab-1")
    assert (found["state"], states()["tuning"]) == ("tuning", 1)
    (work,) = found["work"]
    assert (work["kind"], work["id"], work["name"]) == ("side_by_side", row.pk, f"{runs[0].pk},{runs[1].pk}")
    Run.objects.filter(pk=runs[1].pk).update(project=Project.objects.create(name="vision"))
    (work,) = shown("lab-1", make_user("operator"))["work"]
    assert (work["id"], work["name"]) == (None, ELSEWHERE), "one of them isn't theirs to see"


def test_a_stranger_sees_that_it_is_busy_and_not_with_what() -> None:
    other = projects.create("vision")
    stranger = make_user("viewer", "grace")
    members.add(other, "grace", "viewer")
    stranger.memberships.exclude(project=other).delete()
    on(make_machine("lab-1"), name="secret")
    (work,) = shown("lab-1", stranger)["work"]
    assert (work["id"], work["name"], work["status"]) == (None, ELSEWHERE, "running")
    assert Project.objects.count() == 2


def test_states_have_a_beginning() -> None:
    now = timezone.now()
    lost, drained, waiting = make_machine("a"), make_machine("b", draining_at=now), make_machine("c", trouble="too old")
    heard = now - LOST - timedelta(minutes=5)
    Machine.objects.filter(pk=lost.pk).update(heartbeat_at=heard)
    told = {one["name"]: (one["state"], one["since"]) for one in machines(None)["machines"]}
    assert told == {"a": ("lost", heard.isoformat()), "b": ("drained", now.isoformat()), "c": ("waiting", None)}
    assert shown("c")["trouble"] == waiting.trouble == "too old"
    assert drained.is_draining


def test_an_idle_machine_is_so_since_its_last_run_ended() -> None:
    machine = make_machine("lab-1")
    run = on(machine)
    run.finish(to="finished")
    run.refresh_from_db()
    assert run.finished_at
    assert shown("lab-1")["since"] == run.finished_at.isoformat()


def test_its_queue_has_the_runs_that_it_may_take() -> None:
    now = timezone.now()
    big, small = make_machine("big", cores=16, features=["x86_64", "avx2", "avx512f"]), make_machine("small")
    wide = Needs.objects.of(["x86_64", "avx512f"], 8)
    oldest = make_run(needs=Needs.objects.of(["x86_64"], 2), queued_at=now - timedelta(minutes=9))
    make_run(needs=wide)
    make_run(chosen_machine=small)
    make_run(needs=wide, chosen_machine=big)
    make_run(device="rpc:lab/pi")
    make_run(device="cuda:0")
    lengths = {one["name"]: one["queue"]["length"] for one in machines(None)["machines"]}
    assert lengths == {"big": 3, "small": 2}
    assert shown("big")["queue"]["oldest_at"] == oldest.queued_at.isoformat()


def test_its_last_hour_is_what_was_counted_there() -> None:
    run = on(make_machine("lab-1"))
    for name in ("lab-2", "lab-3"):
        make_machine(name)
    make_tasks(run)
    record_trials(run, [(0, 1e-3), (1, None), (0, 2e-3)])
    Recorder(run).record([trial(0), trial(0, machine="lab-2"), trial(1, None, machine="lab-2")])
    assert shown("lab-1")["last_hour"] == {"trials": 4, "failed": 1, "tuned_s": 0}
    assert shown("lab-2")["last_hour"] == {"trials": 2, "failed": 1, "tuned_s": 0}
    assert shown("lab-3")["last_hour"] == {"trials": 0, "failed": 0, "tuned_s": 0}


def test_a_machines_work_and_use_are_read_once_for_all() -> None:
    for number in range(2):
        on(make_machine(f"m{number}"), device=f"cuda:{number}")
    with CaptureQueriesContext(connection) as few:
        machines(None)
    for number in range(2, 6):
        on(make_machine(f"m{number}"), device=f"cuda:{number}")
    with CaptureQueriesContext(connection) as many:
        machines(None)
    assert len(many) == len(few)


def test_it_shows_what_a_machine_measures_for_a_run_of_another_one() -> None:
    home, other = make_machine("lab-1"), make_machine("lab-2")
    run = on(home, name="ours", machines_wanted=2)
    for machine in (home, other):
        member = PoolMember.objects.create(run=run, machine=machine, device="cpu", pool="1.a")
        assert member.join()
    for name in ("lab-1", "lab-2"):
        one = shown(name)
        assert (one["state"], [work["id"] for work in one["work"]]) == ("tuning", [run.pk])
    assert shown("lab-2")["since"]
    assert shown("lab-2", make_user("viewer", "stranger"))["work"][0]["name"] == "ours"
