"""How near tasks are to what their machine does at best, and what the verdict makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import make_machine, make_roofline, measured_run
from tuning.models import MachineRoofline, Run, Task
from tuning.reads.gaining import verdict
from tuning.reads.gaining.verdict import Verdict

pytestmark = pytest.mark.django_db
LATENCIES = [(0, 4e-3), (1, 3e-3)]
"""Task 0 weighs 1 and has 1 MFLOP, task 1 weighs 2 and has 2: the estimate is 10 ms. Both are bound by computing, to 10 and 20 µs."""


def run_on_a_known_machine(latencies: Any = LATENCIES, *, roofline: dict[str, Any] | None = None, **values: Any) -> Run:
    machine = make_machine()
    make_roofline(machine, **roofline or {})
    run = measured_run(latencies, **values)
    Run.objects.filter(pk=run.pk).update(machine=machine)
    run.refresh_from_db()
    return run


def found(run: Run) -> Verdict:
    return verdict(run, None)


def test_each_task_has_the_roof_of_its_working_set() -> None:
    told = found(run_on_a_known_machine()).to_dict()
    roofs = [task["roof"] for task in told["tasks"]]
    assert [roof and (roof["bytes"], roof["bound_by"]) for roof in roofs] == [(3648, "compute")] * 2
    assert [roof and roof["latency_s"] for roof in roofs] == pytest.approx([1e-5, 2e-5])
    assert [roof and roof["reached"] for roof in roofs] == pytest.approx([1e-5 / 4e-3, 2e-5 / 3e-3])
    assert [roof and roof["gain_s"] for roof in roofs] == pytest.approx([4e-3 - 1e-5, 6e-3 - 4e-5])
    assert told["to_roof_s"] == pytest.approx(10e-3 - 5e-5)
    assert told["to_roof"] == pytest.approx(1 - 5e-3)
    assert told["roofline"]
    assert (told["roofline"]["machine"], told["roofline"]["flops"]) == ("lab-1", 1e11)


def test_nothing_is_capped() -> None:
    told = found(run_on_a_known_machine([(0, 5e-6), (1, 3e-3)])).to_dict()
    roof = told["tasks"][0]["roof"]
    assert roof
    assert roof["reached"] == pytest.approx(2.0)
    assert roof["gain_s"] == 0


def test_it_counts_where_nothing_better_is_known() -> None:
    run = run_on_a_known_machine([(0, 9e-3), (1, 1e-4)])
    alone = found(run)
    assert alone.by_roof
    assert alone.holders
    assert alone.holders.indices == [0]
    measured_run([(1, 5e-5)], device="")
    known = found(run)
    assert not known.by_roof, "another run was faster"
    assert known.holders
    assert known.holders.indices == [1]


def test_a_task_without_a_roof_leaves_no_sum() -> None:
    run = run_on_a_known_machine()
    quantized = [{"name": "x", "shape": [8], "dtype": "int8"}]
    Task.objects.filter(run=run, index=1).update(args=quantized)
    told = found(run).to_dict()
    assert told["tasks"][0]["roof"]
    assert told["tasks"][1]["roof"] is None
    assert (told["to_roof_s"], told["to_roof"], told["by_roof"]) == (None, None, False)


def test_a_task_without_a_latency_has_a_roof_and_no_share() -> None:
    told = found(run_on_a_known_machine([(0, 4e-3), (1, None)])).to_dict()
    roof = told["tasks"][1]["roof"]
    assert roof
    assert (roof["reached"], roof["gain_s"]) == (None, None)
    assert told["to_roof_s"] is None


@pytest.mark.parametrize(
    "values",
    [
        {"device": "rpc:lab/board"},
        {"machines_wanted": 3},
        {"engine": "auto_scheduler"},
        {"synthetic": True},
    ],
    ids=["a remote device", "a pool", "an older TVM", "synthetic"],
)
def test_what_wasnt_measured_there_has_none(values: dict[str, Any]) -> None:
    told = found(run_on_a_known_machine(**values)).to_dict()
    assert told["roofline"] is None
    assert [task["roof"] for task in told["tasks"]] == [None, None]


def test_another_machines_or_targets_isnt_taken() -> None:
    run = run_on_a_known_machine(roofline={"target_fingerprint": "another"})
    make_roofline(make_machine("lab-2"))
    assert found(run).roofline is None


def test_no_task_is_expected_below_its_roof_unless_that_was_measured_too_low() -> None:
    """Task 0 is at 112.5 µs after 80 trials and still improves; its roof is at 100 µs. Task 1 is on a plateau at 1 ms."""
    latencies = [(task, 9e-3 / number if task == 0 else 1e-3) for number in range(1, 81) for task in (0, 1)]
    run = run_on_a_known_machine(latencies, roofline={"flops": 1e10}, trials_budget=1000)
    run.tasks.filter(index=1).update(plateaued=True)
    bound = found(run).gains[0].expected_s
    assert bound == pytest.approx(12.5e-6)
    MachineRoofline.objects.update(others_cores=1.5)
    disturbed = found(run).gains[0].expected_s
    assert disturbed
    assert disturbed > 15e-6
    MachineRoofline.objects.update(others_cores=0.0, flops=1e9)  # Task 1 would take 2 ms.
    assert found(run).gains[0].expected_s == disturbed
