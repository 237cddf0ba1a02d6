"""When a machine's roofline is measured, and what is stored of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from tests.world import TARGET, extracted, make_machine, make_roofline, make_run, on
from tuning.engines.wire.protocol import Hello, RooflineMeasured
from tuning.models import Machine, MachineRoofline, fingerprint
from tuning.work.course import rooflines
from tuning.work.recorder import EngineMisbehaved, Recorder

pytestmark = pytest.mark.django_db
MEASURED = RooflineMeasured(flops=2e11, bandwidths=[(2**16, 3e11), (2**26, 2e10)], threads=2, took_s=1.5)
BUSY = {"cpus": 2, "others_cores": 1.0}


@pytest.fixture
def machine(settings: Any) -> Machine:
    settings.ROOFLINE = True
    return make_machine(load={"cpus": 2, "others_cores": 0.1})


def test_it_is_measured_once_for_each_target(machine: Machine) -> None:
    run = on(machine)
    assert rooflines.known(run) == []
    make_roofline(machine)
    make_roofline(make_machine("lab-2"), target=TARGET | {"mcpu": "znver5"})
    assert rooflines.known(run) == [TARGET]


@pytest.mark.parametrize(
    "of_run", [{"device": "rpc:lab/board"}, {"machines_wanted": 3}], ids=["a remote device", "a pool"]
)
def test_only_what_measures_on_its_own_machine_measures_it(machine: Machine, of_run: dict[str, Any]) -> None:
    assert rooflines.known(on(machine, **of_run)) is None
    assert rooflines.known(make_run()) is None, "its machine isn't known"


def test_a_setting_turns_it_off(machine: Machine, settings: Any) -> None:
    settings.ROOFLINE = False
    assert rooflines.known(on(machine)) is None


@pytest.mark.parametrize("why", [{"asked_at": timezone.now()}, {"others_cores": 1.5}], ids=["asked", "disturbed"])
def test_it_is_measured_again_once_nobody_disturbs_the_machine(machine: Machine, why: dict[str, Any]) -> None:
    run = on(machine)
    make_roofline(machine, **why)
    assert rooflines.known(run) == []
    Machine.objects.update(load=BUSY)
    assert rooflines.known(run) == [TARGET]


def test_it_is_stored_with_the_load_meanwhile(machine: Machine) -> None:
    run = on(machine)
    Recorder(run).record([Hello(1, "meta_schedule", 1, {"apache-tvm": "0.27.0"}), extracted(), MEASURED])
    stored = MachineRoofline.objects.get()
    assert (stored.machine, stored.target, stored.target_fingerprint) == (machine, TARGET, fingerprint(TARGET))
    assert (stored.flops, stored.bandwidths) == (2e11, [[2**16, 3e11], [2**26, 2e10]])
    assert (stored.threads, stored.took_s, stored.tvm) == (2, 1.5, "0.27.0")
    assert (stored.others_cores, stored.cpus, stored.is_disturbed) == (0.1, 2, False)


def test_it_takes_the_place_of_an_earlier_one(machine: Machine) -> None:
    before = make_roofline(machine, asked_at=timezone.now(), others_cores=2.0)
    Recorder(on(machine)).record([extracted(), MEASURED])
    stored = MachineRoofline.objects.get()
    assert (stored.pk, stored.flops, stored.asked_at, stored.is_disturbed) == (before.pk, 2e11, None, False)
    assert stored.measured_at > before.measured_at


def test_one_that_was_measured_under_load_says_so(machine: Machine) -> None:
    run = on(machine)
    Machine.objects.update(load=BUSY)
    Recorder(run).record([extracted(), MEASURED])
    assert MachineRoofline.objects.get().is_disturbed


def test_it_is_refused_from_what_measures_elsewhere(machine: Machine) -> None:
    run = on(machine, machines_wanted=3)
    with pytest.raises(EngineMisbehaved, match="roofline"):
        Recorder(run).record([extracted(), MEASURED])
    assert not MachineRoofline.objects.exists()
    assert not run.tasks.exists(), "nothing of the batch is stored"


@pytest.mark.parametrize(
    "wrong",
    [
        {"flops": 0.0},
        {"flops": float("inf")},
        {"bandwidths": []},
        {"bandwidths": [(2, 1.0), (1, 1.0)]},
        {"bandwidths": [(1, -1.0)]},
        {"threads": 0},
    ],
    ids=["no flops", "infinite", "no bandwidths", "descending", "negative", "no threads"],
)
def test_an_event_that_measured_nothing_is_refused(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"flops": 1e9, "bandwidths": [(1, 1.0)], "threads": 1, "took_s": 1.0}
    with pytest.raises(ValueError, match="roofline"):
        RooflineMeasured(**given | wrong)
