"""What is made of runs that were measured side by side."""

from __future__ import annotations

import pytest

from tests.tuning.reads.test_comparing import FAST, compared, measured
from tests.world import measured_beside, record_trials, set_beside
from tuning.models import Run, SideBySide

pytestmark = pytest.mark.django_db
EVEN = [1.0, 1.0, 1.0, 1.0, 1.0]


def times(factor: float, rounds: list[float]) -> list[float]:
    return [factor * one for one in rounds]


def test_rounds_are_compared_with_the_baselines_of_the_same_round() -> None:
    """A machine that becomes slower in the course of it makes neither of them slower than the other."""
    runs = [measured(), measured()]
    slowing = [1.0, 1.1, 1.2, 1.3, 1.4]
    measured_beside(
        runs,
        {
            (0, 0): times(1e-3, slowing),
            (0, 1): times(3e-3, slowing),
            (1, 0): times(2e-3, slowing),
            (1, 1): times(3e-3, slowing),
        },
    )
    comparison = compared(*runs)
    base, other = (run["beside"] for run in comparison["runs"])
    assert base
    assert other
    assert base["latency_s"] == pytest.approx((1e-3 * 1 + 3e-3 * 2) * 1.2)
    assert other["latency_s"] == pytest.approx((2e-3 * 1 + 3e-3 * 2) * 1.2)
    assert base["noise"]
    assert base["noise"] > 0.1
    assert other["ratio"] == pytest.approx(8 / 7)
    assert other["difference_s"] == pytest.approx(1e-3 * 1.2)
    assert other["difference_noise"] == pytest.approx(0.0, abs=1e-9)
    assert other["within_noise"] is False
    cells = [cell for task in comparison["tasks"] if (cell := task["cells"][1])]
    same, fast = (cell["beside"] for cell in cells)
    assert fast
    assert same
    assert [one["ratio"] for one in (fast, same)] == pytest.approx([2.0, 1.0])
    assert fast["difference_s"] == pytest.approx(1.2e-3)
    assert same["within_noise"]
    summary = comparison["side_by_side"]
    assert summary
    assert (summary["rounds"], summary["tasks"], summary["failed"], summary["outdated"]) == (5, 2, [], [])


def test_outliers_of_one_task_after_the_other_do_not_change_the_sum() -> None:
    """Each round is disturbed in another task, which makes all sums by round too large."""
    runs = [measured(), measured()]
    steady, other_steady = [1.0, 1.01, 0.99, 1.0, 1.02, 1.01, 1.0], [1.01, 0.99, 1.0, 1.02, 1.0, 1.0, 1.01]
    early, late = [9.0, 9.0, 9.0, *steady[3:]], [*steady[:4], 9.0, 9.0, 9.0]
    base_rounds = {(0, 0): times(1e-3, early), (0, 1): times(3e-3, late)}
    rounds = base_rounds | {(1, 0): times(1e-3, other_steady), (1, 1): times(3e-3, other_steady)}
    measured_beside(runs, rounds)
    base, other = (run["beside"] for run in compared(*runs)["runs"])
    assert base
    assert other
    assert base["latency_s"] == pytest.approx(1e-3 * 1.01 + 3e-3 * 1.01 * 2, rel=0.02)
    assert abs(other["ratio"] - 1) < 0.03
    assert other["within_noise"]


def test_the_noise_of_tasks_adds_up_and_that_of_their_ratios_cancels_out_in_part() -> None:
    runs = [measured(), measured()]
    restless = [0.97, 1.03, 1.0, 1.04, 0.98]
    measured_beside(runs, {(place, index): restless if place else EVEN for place in (0, 1) for index in (0, 1)})
    comparison = compared(*runs)
    other, one = comparison["runs"][1]["beside"], comparison["tasks"][0]["cells"][1]
    assert other
    assert one
    assert one["beside"]
    single = one["beside"]["noise"]
    assert single
    assert other["noise"] == pytest.approx(single)
    assert other["difference_noise"] == pytest.approx(single * (1 + 2**2) ** 0.5 / 3)


def test_a_difference_that_changes_sign_is_noise() -> None:
    runs = [measured(), measured()]
    restless = [0.97, 1.03, 1.0, 1.04, 0.98]
    rounds = {(place, index): times(1e-3, restless if place else EVEN) for place in (0, 1) for index in (0, 1)}
    measured_beside(runs, rounds)
    other = compared(*runs)["runs"][1]["beside"]
    assert other
    assert other["ratio"] == pytest.approx(1.0)
    assert other["within_noise"]


def test_a_task_that_could_not_be_measured_of_each_run_is_left_out_of_the_sum() -> None:
    runs = [measured(), measured()]
    measured_beside(runs, {(0, 0): EVEN, (1, 0): EVEN, (0, 1): EVEN, (1, 1): []})
    comparison = compared(*runs)
    assert [run["beside"] and run["beside"]["latency_s"] for run in comparison["runs"]] == [1.0, 1.0]
    summary = comparison["side_by_side"]
    assert summary
    assert summary["tasks"] == 1
    assert [(one["run"], one["trial"], one["error"]) for one in summary["failed"]] == [(runs[1].pk, 2, "It crashed.")]
    cells = {task["name"]: task["cells"] for task in comparison["tasks"]}
    assert [cell and cell["beside"] for cell in cells["fused_matmul1"]][1] is None


def test_a_run_with_other_best_records_since_is_outdated() -> None:
    runs = [measured(), measured()]
    measured_beside(runs, dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1)], EVEN))
    Run.objects.filter(pk=runs[1].pk).update(status="running")
    runs[1].refresh_from_db()
    record_trials(runs[1], [(0, 0.5e-3)])
    summary = compared(*runs)["side_by_side"]
    assert summary
    assert summary["outdated"] == [runs[1].pk]


def test_weights_that_are_not_recorded_make_no_sum() -> None:
    runs = [measured(), measured()]
    measured_beside(runs, dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1)], EVEN))
    runs[0].tasks.update(weight=None)
    comparison = compared(*runs)
    assert [run["beside"] for run in comparison["runs"]] == [None, None]
    cell = comparison["tasks"][0]["cells"][1]
    assert cell
    assert cell["beside"]
    assert (cell["beside"]["latency_s"], cell["beside"]["difference_s"]) == (1.0, None)


def test_it_is_the_newest_that_has_finished_of_exactly_these_runs() -> None:
    runs = [measured(FAST) for _ in range(3)]
    rounds = dict.fromkeys([(0, 0), (1, 0)], EVEN)
    assert compared(*runs[:2])["side_by_side"] is None
    old = measured_beside(runs[:2], rounds)
    new = measured_beside(runs[:2], rounds)
    set_beside(runs[:2], status=SideBySide.Status.FAILED, error="It crashed.")
    set_beside(runs[:2])
    found = compared(runs[1], runs[0])["side_by_side"]
    assert found
    assert found["id"] == new.pk != old.pk
    assert compared(*runs)["side_by_side"] is None
