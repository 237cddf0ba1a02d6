"""A machine's entry: made once for a data folder, kept alive, and never shared by two machines of one name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from tests.world import make_machine, make_run, on
from tuning.actions import sweeping
from tuning.actions.machines import registering
from tuning.actions.machines.registering import NameTaken, Presence, describe, here, judge, register
from tuning.host import targets
from tuning.host.machine import identity
from tuning.models import FULL, LOST, Beat, Machine, Needs, Run
from tuning.validation import Invalid
from tuning.version import VERSION

pytestmark = pytest.mark.django_db
SITE = {"tuneboard": "0.2.0", "apache-tvm": "0.27.0"}


@pytest.fixture
def elsewhere(settings: Any, tmp_path: Path) -> Callable[[str], None]:
    """From now on, this process is a machine with another data folder."""

    def move(name: str) -> None:
        settings.VAR = tmp_path / name
        settings.VAR.mkdir()

    return move


def lose(machine: Machine) -> None:
    Machine.objects.filter(pk=machine.pk).update(heartbeat_at=timezone.now() - LOST - timedelta(seconds=1))


def test_it_enters_what_the_machine_is(settings: Any) -> None:
    settings.MACHINE = "lab-1"
    made = register()
    assert (made.name, made.devices, made.state, made.is_alive) == ("lab-1", ["cpu"], "idle", True)
    assert made.memory > 2**28
    assert made.versions["tuneboard"] == VERSION
    assert made.versions["apache-tvm"]
    assert Machine.objects.get() == here() == made


def test_a_restart_renews_the_entry_also_under_another_name(settings: Any) -> None:
    settings.MACHINE = "lab-1"
    first = register()
    lose(first)
    settings.MACHINE = "lab-2"
    again = register()
    assert (again.pk, again.name, again.is_alive) == (first.pk, "lab-2", True)


def test_a_name_is_refused_while_its_machine_is_alive(settings: Any, elsewhere: Callable[[str], None]) -> None:
    settings.MACHINE = "lab-1"
    first = register()
    elsewhere("other")
    with pytest.raises(NameTaken, match=r"another machine called lab-1, .* it is alive. .*--name NAME"):
        register()
    assert Machine.objects.get().key == first.key


def test_a_lost_machines_name_is_taken_over_by_one_with_a_new_folder(
    settings: Any, elsewhere: Callable[[str], None]
) -> None:
    settings.MACHINE = "lab-1"
    first = register()
    lose(first)
    elsewhere("new disk")
    again = register()
    assert (again.pk, again.key) == (first.pk, identity.key())


def test_a_machine_that_was_heard_of_lately_may_turn_out_to_be_gone(
    settings: Any, elsewhere: Callable[[str], None]
) -> None:
    settings.MACHINE = "lab-1"
    first = register()
    elsewhere("new disk")
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        lose(first)

    again = registering.register_in_time(say)
    assert (again.pk, again.key) == (first.pk, identity.key())
    assert said == ["A machine called lab-1 was heard from less than 30 s ago. Waiting to see whether it is gone."]


def test_a_machine_that_is_heard_of_again_keeps_its_name(settings: Any, elsewhere: Callable[[str], None]) -> None:
    settings.MACHINE = "lab-1"
    first = register()
    elsewhere("other")

    def beat(_: str) -> None:
        Machine.objects.update(heartbeat_at=first.heartbeat_at + timedelta(seconds=1))

    with pytest.raises(NameTaken, match="it is alive"):
        registering.register_in_time(beat)
    assert Machine.objects.get().key == first.key


def test_a_machine_doesnt_take_a_second_entry_over(settings: Any, elsewhere: Callable[[str], None]) -> None:
    settings.MACHINE = "lab-1"
    lose(register())
    elsewhere("other")
    settings.MACHINE = "lab-2"
    register()
    settings.MACHINE = "lab-1"
    with pytest.raises(NameTaken, match="it was lost"):
        register()
    assert set(Machine.objects.values_list("name", flat=True)) == {"lab-1", "lab-2"}


def test_what_was_launched_before_there_was_another_machine_stays(
    settings: Any, elsewhere: Callable[[str], None]
) -> None:
    settings.MACHINE = "lab-1"
    first = register()
    old, ended = make_run(), make_run(status="interrupted")
    known, remote, streamed = (
        make_run(needs=Needs.objects.of(["x86_64"], 2)),
        make_run(device="rpc:lab/pi"),
        make_run(device="", origin="streamed"),
    )
    register()
    assert not Run.objects.filter(chosen_machine__isnull=False).exists(), "one machine alone is no choice"
    settings.MACHINE = "lab-2"
    elsewhere("other")
    second = register()
    assert {run.pk for run in Run.objects.filter(chosen_machine=first)} == {old.pk, ended.pk}
    assert {run.pk for run in Run.objects.filter(chosen_machine=None)} == {known.pk, remote.pk, streamed.pk}
    assert old not in Run.objects.waiting_for("cpu", second)
    assert old in Run.objects.waiting_for("cpu", first)


def test_the_heartbeat_keeps_it_alive_and_tells_its_load() -> None:
    machine = register()
    lose(machine)
    assert here().state == "lost"
    said: list[str] = []
    Presence(said.append).tick()
    assert (here().state, said) == ("idle", [])
    assert here().load["disk_free"] > 0


@pytest.mark.django_db(transaction=True)
def test_it_says_once_that_the_database_is_away_and_once_that_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    register()
    said: list[str] = []
    presence = Presence(said.append)

    def refuse() -> bool:
        raise OperationalError("connection refused\nIs the server running?")

    with monkeypatch.context() as away:
        away.setattr(presence, "_beat", refuse)
        for _ in range(3):
            presence.due = 0.0
            presence.tick()
    presence.due = 0.0
    presence.tick()
    assert said == [
        "This machine can't tell the site that it is alive: connection refused Is the server running?. It keeps trying.",
        "The site hears of this machine again.",
    ]


def test_a_forgotten_machine_says_so_until_it_registers_again() -> None:
    Machine.objects.filter(pk=register().pk).update(forgotten_at=timezone.now())
    said: list[str] = []
    Presence(said.append).tick()
    assert said == ["This machine was forgotten. To have it back, start this command again."]
    assert not Machine.objects.exists()
    assert register().is_alive


def test_tvm_tells_its_cpu_once_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    register()
    assert (here().cpu, here().cores, here().target) == ("", 0, None)
    target = {"kind": "llvm", "mcpu": "znver4", "num-cores": 16}
    found = {"target": target, "device": "cpu", "label": "", "needs": ["x86_64", "avx2"]}
    monkeypatch.setattr(targets, "this_machine", lambda: found)
    assert describe() is None
    assert (here().cpu, here().cores, here().target, here().features) == ("znver4", 16, target, ["x86_64", "avx2"])

    def cannot() -> None:
        raise Invalid({"target": "TVM crashed"})

    monkeypatch.setattr(targets, "this_machine", cannot)
    assert "TVM crashed" in str(describe())
    assert here().cpu == "znver4", "it keeps what an earlier start found"


@pytest.mark.tvm
def test_tvm_knows_this_machine() -> None:
    register()
    assert describe() is None
    found = here()
    assert found.target
    assert (found.cpu, found.cores) == (found.target["mcpu"], found.target["num-cores"])
    assert found.features[0] in ("x86_64", "aarch64", "arm64")


def test_the_sweep_lets_other_versions_wait_and_go_on() -> None:
    fits, old = (
        make_machine("lab-1", versions=identity.versions()),
        make_machine("lab-2", versions={"tuneboard": "0.0.1"}),
    )
    sweeping.sweep()
    fits.refresh_from_db()
    old.refresh_from_db()
    assert (fits.trouble, fits.state) == ("", "idle")
    assert old.state == "waiting"
    assert f"It has tuneboard 0.0.1, and the site has {VERSION}" in old.trouble
    assert list(Machine.objects.taking_work()) == [fits]
    assert Beat.objects.get(name=Beat.SWEEP).versions["tuneboard"] == VERSION
    Machine.objects.filter(pk=old.pk).update(versions=identity.versions())
    sweeping.sweep()
    old.refresh_from_db()
    assert old.state == "idle"


def test_another_python_fits() -> None:
    machine = make_machine("lab-1", versions={**SITE, "python": "3.10.1"})
    judge({**SITE, "python": "3.13.2"})
    machine.refresh_from_db()
    assert machine.trouble == ""
    assert "apache-tvm is missing, and the site has 0.27.0" in registering.differing(SITE, {"tuneboard": "0.2.0"})


@pytest.mark.parametrize(
    ("site", "machine", "said"),
    [
        ("database", "files", "Its TUNEBOARD_STORAGE is files, and the site's is database. Set it there, too."),
        (
            "s3://lab/a",
            "s3://lab/b",
            "Its TUNEBOARD_STORAGE is s3://lab/b, and the site's is s3://lab/a. Set it there, too.",
        ),
        ("files", "database", "The site keeps its files on its own machine (TUNEBOARD_STORAGE=files)."),
        ("files", "files", "The site keeps its files on its own machine (TUNEBOARD_STORAGE=files)."),
    ],
)
def test_a_machine_waits_whose_files_the_site_would_not_find(site: str, machine: str, said: str, settings: Any) -> None:
    settings.STORAGE = site
    register()
    other = make_machine("lab-2", versions=SITE, storage=machine)
    judge(SITE)
    other.refresh_from_db()
    assert other.state == "waiting"
    assert other.trouble.startswith(said)
    Machine.objects.filter(pk=other.pk).update(storage="s3://lab/a")
    settings.STORAGE = "s3://lab/a"
    judge(SITE)
    other.refresh_from_db()
    assert other.trouble == ""


def test_the_sites_own_machine_finds_its_files(settings: Any) -> None:
    settings.STORAGE = "files"
    mine = register()
    judge(identity.versions())
    mine.refresh_from_db()
    assert (mine.storage, mine.trouble) == ("files", "")


def test_a_machine_with_a_full_disk_waits_until_there_is_space() -> None:
    machine = make_machine("lab-1", versions=SITE, load={"disk_free": FULL - 1})
    judge(SITE)
    machine.refresh_from_db()
    assert machine.state == "waiting"
    assert machine.trouble == (
        "Its disk is full: 63 MiB are free in its TUNEBOARD_VAR, and it needs 64. Free some space there."
    )
    assert not Machine.objects.taking_work().exists()
    Machine.objects.filter(pk=machine.pk).update(load={"disk_free": FULL})
    judge(SITE)
    assert list(Machine.objects.taking_work()) == [machine]


def test_a_busy_machine_is_tuning() -> None:
    machine = make_machine("lab-1")
    on(machine)
    assert machine.state == "tuning"
