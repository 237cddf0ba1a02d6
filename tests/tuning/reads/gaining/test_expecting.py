"""What more trials of a run are expected to gain, and which tasks hold most of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import TARGET, claimed, make_run, make_tasks, measured_run, record_trials
from tuning.models import Run, Task
from tuning.reads.gaining import Verdict, more, verdict
from tuning.reads.gaining.expecting import FEWEST

pytestmark = pytest.mark.django_db
LIVELY = [(0, 9e-3 / (1 + number)) for number in range(FEWEST // 2)]
"""The first task still improves, by weight 1."""
FLAT = [(1, 1e-4)] * (FEWEST // 2)


def tuned(latencies: list[tuple[int, float]], **values: Any) -> Run:
    run = measured_run(latencies, **({"trials_budget": 1000} | values))
    run.move("running", to="finished")
    run.refresh_from_db()
    return run


def found(run: Run) -> Verdict:
    return verdict(run, None)


def test_a_task_that_still_improves_holds_what_can_be_gained() -> None:
    told = found(tuned([*LIVELY, *FLAT]))
    assert told.forecast is not None
    assert told.forecast.trials == 20
    first, second = (gain.expected_s or 0.0 for gain in told.gains)
    assert first > second >= 0
    assert told.holders is not None
    assert told.holders.indices == [0]
    assert told.holders.share == pytest.approx(first / (first + second))


def test_the_api_has_shares_of_the_estimate() -> None:
    run = tuned([*LIVELY, *FLAT])
    told = found(run).to_dict()
    forecast = told["forecast"]
    assert forecast is not None
    assert run.estimated_latency_s is not None
    assert forecast["expected"] == pytest.approx(forecast["expected_s"] / run.estimated_latency_s)
    assert 0 <= forecast["least"] <= forecast["expected"] <= forecast["most"] < 1
    assert told["holders"] == {"tasks": [0], "share": pytest.approx(0.9, abs=0.1)}


def test_what_others_have_shown_counts_if_it_is_more() -> None:
    run = tuned([*LIVELY, *FLAT])
    tuned([(1, 1e-8)])
    told = found(run)
    assert told.gains[1].room_s == told.gains[1].if_equalled_s
    assert told.gains[0].room_s == told.gains[0].expected_s


def test_gains_that_are_spread_have_no_holders() -> None:
    run = claimed(make_run(trials_budget=1000))
    make_tasks(run, 4)
    Task.objects.filter(run=run).update(weight=1)
    record_trials(run, [(task, 9e-3 / (1 + number)) for number in range(20) for task in range(4)])
    assert found(run).forecast is not None
    assert found(run).holders is not None, "half of them"
    Task.objects.filter(run=run, index=3).update(chosen=False)
    assert found(run).holders is None, "two of three"


def test_other_algorithms_that_were_not_tried_or_never_worked_gain_nothing() -> None:
    run = claimed(make_run(trials_budget=1000))
    make_tasks(run, 4)
    for index, weight in enumerate([1, 1, 0, 0]):
        Task.objects.filter(run=run, index=index).update(weight=weight)
    record_trials(run, [*LIVELY, *FLAT, (3, None)])
    told = found(run)
    assert told.forecast is not None
    assert [gain.expected_s is not None for gain in told.gains] == [True, True, False, False]


def test_a_task_on_a_plateau_gets_no_trials() -> None:
    run = tuned([*LIVELY, *FLAT])
    Task.objects.filter(run=run, index=0).update(plateaued=True)
    assert found(run).gains[0].expected_s == 0
    Task.objects.filter(run=run).update(plateaued=True)
    assert found(run).forecast is None


@pytest.mark.parametrize(
    "values",
    [
        {"synthetic": True},
        {"engine": "autotvm"},
        {"estimated_latency_s": None},
        {"trials_done": FEWEST - 1},
        {"target": TARGET | {"kind": "cuda"}},
        {"options": {"strategy": "replay-trace"}},
    ],
    ids=lambda values: next(iter(values)),
)
def test_only_runs_like_those_it_was_checked_on_have_a_forecast(values: dict[str, Any]) -> None:
    run = tuned([*LIVELY, *FLAT])
    assert found(run).forecast is not None
    Run.objects.filter(pk=run.pk).update(**values)
    run.refresh_from_db()
    assert found(run).forecast is None


@pytest.mark.parametrize(
    ("done", "budget", "status", "trials"),
    [
        (320, 320, "finished", 200),
        (64, 64, "finished", 20),
        (1, 1, "finished", 1),
        (10_000, 10_000, "finished", 5_000),
        (100, None, "finished", 50),
        (300, 320, "running", 20),
        (100, 320, "stopped", 100),
        (100, 320, "finished", 50),
    ],
)
def test_it_is_about_the_rest_of_the_budget_or_about_half_as_many_again(
    done: int, budget: int | None, status: str, trials: int
) -> None:
    assert more(Run(trials_done=done, trials_budget=budget, status=status)) == trials
