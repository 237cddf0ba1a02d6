"""Where a launch may go: on a fleet the form must say it, unless all machines are equal; what fits none is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import make_machine, make_run, make_user
from tuning.actions import runs
from tuning.host import devices, targets
from tuning.host.machine import identity
from tuning.models import AuditEntry, Machine, Membership, Project, Run
from tuning.queue import jobs
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db
ZEN = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}
ARM = {"kind": "llvm", "mcpu": "neoverse-n1", "num-cores": 4}
NEEDS = {"znver4": ["x86_64", "avx2"], "skylake-avx512": ["x86_64", "avx2", "avx512f"], "neoverse-n1": ["aarch64"]}


@pytest.fixture(autouse=True)
def resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets are resolved without TVM: a target without a device is for `cpu`, and needs what its CPU has."""

    def resolve(asked: Any) -> targets.TargetDict:
        target = dict(ZEN) if asked == "this" else dict(asked)
        device = "cuda:0" if target["kind"] == "cuda" else "cpu"
        needs = NEEDS.get(str(target.get("mcpu")), [])
        return {"target": target, "device": device, "label": "", "needs": needs}

    monkeypatch.setattr(targets, "resolve", resolve)
    monkeypatch.setattr(targets, "resolve_elsewhere", resolve)
    monkeypatch.setattr(jobs, "enqueue", lambda _run: None)


def launched(**given: Any) -> Run:
    return runs.launch({"network": "matmul", **given}, None)


def refused(**given: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as error:
        launched(**given)
    assert not Run.objects.exists()
    return error.value.fields


def two(**values: Any) -> tuple[Machine, Machine]:
    """This machine and another one."""
    return make_machine("lab-1", key=identity.key()), make_machine("lab-2", **values)


def test_one_machine_has_no_choice() -> None:
    make_machine("lab-1", key=identity.key())
    run = launched()
    assert (run.target, run.chosen_machine, run.device) == (ZEN, None, "cpu")
    assert run.needs is not None
    assert (run.needs.features, run.needs.cores) == (["avx2", "x86_64"], 2)
    assert launched(target={**ZEN, "num-cores": 16}).needs == run.needs, "there are two cores, and its user was warned"


def test_this_on_equal_machines_is_whichever_takes_it() -> None:
    two()
    run = launched()
    assert (run.target, run.chosen_machine) == (ZEN, None)


def test_this_on_machines_that_differ_needs_one() -> None:
    _, arm = two(cpu="neoverse-n1", cores=4, target=ARM, features=["aarch64"])
    said = refused()["machine"]
    assert said == (
        "`this` differs between the machines: lab-1 (znver4, 2 cores), lab-2 (neoverse-n1, 4 cores). "
        "Choose one, or give a target."
    )
    run = launched(machine="lab-2")
    assert (run.chosen_machine, run.target) == (arm, ARM)


def test_this_of_a_machine_that_was_never_asked_is_refused() -> None:
    two(cpu="", cores=0, target=None, features=[])
    assert "lab-2 (CPU not known yet)" in refused(machine="lab-2")["target"]


def test_a_target_goes_to_any_machine_that_fits() -> None:
    two(cpu="skylake-avx512", cores=16, features=["x86_64", "avx2", "avx512f"])
    run = launched(target={"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 8})
    assert run.chosen_machine is None
    one, other = Machine.objects.order_by("name")
    assert not Run.objects.waiting_for("cpu", one).exists()
    assert Run.objects.waiting_for("cpu", other).get() == run


def test_a_target_that_no_machine_fits_is_refused_with_what_each_lacks() -> None:
    two(cpu="skylake-avx512", cores=16, features=["x86_64", "avx2", "avx512f"])
    wide = {"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 32}
    assert refused(target=wide)["target"] == (
        "No machine that joined can run llvm · skylake-avx512 · 32 cores: lab-1 (znver4, 2 cores) lacks avx512f, 32 cores; "
        "lab-2 (skylake-avx512, 16 cores) lacks 32 cores."
    )
    assert "lacks avx512f" in refused(target={**wide, "num-cores": 1}, machine="lab-1")["machine"]
    assert "lack the device cuda:0" in refused(target={"kind": "cuda", "arch": "sm_80"})["target"]


def test_a_target_without_cores_gets_those_of_its_machine() -> None:
    two(cores=16)
    bare = {"kind": "llvm", "mcpu": "znver4"}
    assert "Say for how many cores" in refused(target=bare)["target"]
    assert launched(target=bare, machine="lab-2").target["num-cores"] == 16


def test_a_lost_machine_can_be_chosen_since_it_may_come_back() -> None:
    _, lost = two(heartbeat_at="2026-01-01T00:00:00Z")
    assert launched(machine="lab-2").chosen_machine == lost


@pytest.mark.parametrize("name", ["lab-9", 7, "x" * 200])
def test_a_machine_that_isnt_there_is_refused(name: Any) -> None:
    two()
    said = refused(machine=name)["machine"]
    assert said.endswith("Write 'any', or one of: lab-1, lab-2.")
    assert len(said) < 200


def test_the_choice_is_recorded() -> None:
    two()
    launched(machine="lab-2", priority="low")
    details = AuditEntry.objects.get(action="run.launch").details
    assert (details["machine"], details["priority"]) == ("lab-2", "low")


def test_only_a_projects_admins_put_runs_first() -> None:
    operator, admin = make_user("operator"), make_user("viewer", "ada")
    Membership.objects.filter(user=admin, project=Project.objects.default()).update(role="admin")
    given = {"network": "matmul", "priority": "high"}
    with pytest.raises(Invalid, match="Only the project's admins"):
        runs.launch(given, operator)
    assert runs.launch(given, admin).priority == Run.Priority.HIGH
    assert runs.launch(given | {"priority": "low"}, operator).priority == Run.Priority.LOW
    with pytest.raises(Invalid, match="Must be one of: low, normal, high"):
        runs.launch(given | {"priority": "urgent"}, operator)


def test_a_queued_run_gets_another_priority() -> None:
    run = make_run()
    assert runs.prioritize(run, "low", make_user("operator")).priority == Run.Priority.LOW
    entry = AuditEntry.objects.get(action="run.prioritize")
    assert entry.details == {"priority": {"from": "normal", "to": "low"}}
    with pytest.raises(Invalid, match="Must be one of"):
        runs.prioritize(run, None, None)
    assert run.claim()
    with pytest.raises(Conflict, match="The run is running"):
        runs.prioritize(run, "normal", None)


def test_a_run_is_measured_on_as_many_equal_machines_as_there_are() -> None:
    two()
    assert launched().machines_wanted == 1
    assert launched(machines=2).machines_wanted == 2
    assert launched(machines="2").machines_wanted == 2
    run = launched(machines="all")
    assert (run.machines_wanted, run.has_pool) == (0, True)
    assert run.to_dict(tasks=[])["machines_wanted"] is None
    assert AuditEntry.objects.latest("pk").details["machines"] == "all"


@pytest.mark.parametrize("asked", [3, "all"])
def test_more_machines_than_are_equal_are_refused_with_those_that_there_are(asked: int | str) -> None:
    two(cores=4)
    wanted = 3 if asked == 3 else 2
    there_are = "Machines: lab-1 (znver4, 2 cores), lab-2 (znver4, 4 cores)."
    assert refused(machines=asked, target=ZEN)["machines"] == (
        f"Only 1 machine with the same CPU, cores and versions can run it, not {wanted}. {there_are}"
    )
    assert refused(machines=asked, target=ZEN, machine="lab-2")["machines"] == (
        f"Only 1 machine with CPU, cores and versions like lab-2 can run it, not {wanted}. {there_are}"
    )


def test_another_machine_cannot_be_chosen_for_a_trackers_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    here, _ = two()
    monkeypatch.setattr(devices, "chosen", lambda given: given)
    said = refused(device="rpc:lab/pi", machine="lab-2", target=ZEN)["machine"]
    assert said.endswith("whether lab-2 does isn't known here. Write 'any'.")
    assert launched(device="rpc:lab/pi", target=ZEN).chosen_machine is None
    assert launched(device="rpc:lab/pi", machine="lab-1", target=ZEN).chosen_machine == here


@pytest.mark.parametrize("asked", [0, -1, 1001, "some", True, 1.5])
def test_a_number_of_machines_that_makes_no_sense_is_refused(asked: object) -> None:
    two()
    assert "from 1 to 1000" in refused(machines=asked)["machines"]


def test_the_equal_ones_of_a_chosen_machine_count() -> None:
    make_machine("lab-1", key=identity.key())
    make_machine("lab-2")
    make_machine("big", cores=16)
    said = refused(machines=2, machine="big", target=ZEN)["machines"]
    assert "like big" in said


def test_of_hundreds_of_machines_kinds_are_told() -> None:
    for number in range(200):
        make_machine(
            f"lab-{number:03}", cpu="znver4" if number % 2 else "cortex-a72", target=ZEN if number % 2 else ARM
        )
    said = "lab-000 and 99 more (cortex-a72, 2 cores), lab-001 and 99 more (znver4, 2 cores)"
    assert refused()["machine"] == f"`this` differs between the machines: {said}. Choose one, or give a target."
    wide = {"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 32}
    assert refused(target=wide)["target"].endswith(f": {said} lack avx512f, 32 cores.")
    assert f"Machines: {said}." in refused(target=ZEN, machines=101)["machines"]
