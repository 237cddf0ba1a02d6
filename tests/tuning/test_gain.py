"""What more trials would gain: by hand, and for real runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pytest

from tuning import gain as gaining
from tuning.gain import Curve, Gain, forecast_gain

RECORDED = json.loads((Path(__file__).parents[1] / "data/recorded_curves.json").read_text())
"""Real runs on two cores that others used as well: for each trial its task, and each task's improvements, in seconds."""
BATCH = 16
FLAT, LIVELY = Curve(1e-3, 128, [(1, 1e-3)]), Curve(1e-3, 128, [(1, 4e-3), (70, 2e-3), (120, 1e-3)])


def known(curves: list[Curve], trials: int = 64, batch: int = BATCH) -> Gain:
    found = forecast_gain(curves, trials, batch)
    assert found is not None
    return found


def test_nothing_is_forecast_without_trials_or_tasks_that_may_have_them() -> None:
    assert forecast_gain([], 64, BATCH) is None
    assert forecast_gain([LIVELY], 0, BATCH) is None
    assert forecast_gain([LIVELY._replace(open=False)], 64, BATCH) is None


def test_more_trials_gain_more_and_less_each() -> None:
    few, many, most = (known([LIVELY], trials).expected_s for trials in (64, 128, 1_000_000))
    assert few < many < 2 * few
    assert most < LIVELY.cost_s


def test_a_task_that_still_improves_promises_more_than_a_flat_one() -> None:
    flat, lively = known([FLAT]), known([LIVELY])
    assert 0 < flat.expected_s < lively.expected_s / 2
    assert flat.least_s == 0
    assert lively.least_s <= lively.expected_s <= lively.most_s


def test_the_gain_of_each_task_is_told() -> None:
    found = known([FLAT, LIVELY, LIVELY._replace(open=False)])
    assert found.by_task[1] > found.by_task[0]
    assert found.by_task[2] == 0
    assert sum(found.by_task) == pytest.approx(found.expected_s, rel=0.25), "drawn or on average"


def test_no_task_gains_more_than_it_has_room_for() -> None:
    free, bound = known([LIVELY, FLAT]), known([LIVELY._replace(room_s=2e-5), FLAT])
    assert free.most_s > bound.most_s
    assert bound.by_task[0] == 2e-5 < free.by_task[0]
    assert known([LIVELY._replace(room_s=2e-5)]).most_s == 2e-5
    assert known([LIVELY._replace(room_s=0.0)]).expected_s == 0
    assert known([LIVELY._replace(room_s=1.0)]) == known([LIVELY])


def test_it_is_the_same_each_time_and_for_any_batch() -> None:
    assert known([FLAT, LIVELY]) == known([FLAT, LIVELY])
    assert known([FLAT, LIVELY], batch=1).expected_s == pytest.approx(known([FLAT, LIVELY]).expected_s, rel=0.1)


def test_a_task_of_one_trial_is_like_the_others() -> None:
    assert 0 < known([Curve(1.0, 1, [(1, 1.0)])]).expected_s < 1.0


class Outcome(NamedTuple):
    """A forecast, and what was gained then; as shares of the estimate."""

    least: float
    expected: float
    most: float
    came: float

    @property
    def right(self) -> bool:
        return self.least <= self.came <= self.most


def best_s(steps: list[list[float]], trials: int) -> float | None:
    return next((latency_s for position, latency_s in reversed(steps) if position <= trials), None)


def outcome(run: dict[str, Any], done: int, more: int) -> Outcome | None:
    """None where not every task was measured by then, so that there was no estimate."""
    tasks = [int(task) for task in run["tasks"].split()]
    had, then = Counter(tasks[:done]), Counter(tasks[: done + more])
    parts = [
        (weight, steps, index) for index, (weight, steps) in enumerate(zip(run["weights"], run["steps"], strict=True))
    ]
    before = [best_s(steps, had[index]) for _, steps, index in parts]
    if None in before:
        return None
    costs = [weight * latency_s for (weight, _, _), latency_s in zip(parts, before, strict=True) if latency_s]
    curves = [
        Curve(cost_s, had[index], [(position, latency_s) for position, latency_s in steps if position <= had[index]])
        for cost_s, (_, steps, index) in zip(costs, parts, strict=True)
    ]
    found, whole = known(curves, more), sum(costs)
    after = sum(weight * (best_s(steps, then[index]) or 0) for weight, steps, index in parts)
    return Outcome(found.least_s / whole, found.expected_s / whole, found.most_s / whole, 1 - after / whole)


PARTS = [(done, more) for done in (0.25, 0.5, 0.75) for more in (0.1, 0.2)]
"""After 25, 50 and 75 % of a run's trials, the next 10 and 20 % of them."""
HALVES = [(done, done / 2) for done in (0.25, 0.5, 0.66)]
"""Half as many again as there were, as the page asks after a run has ended."""


def outcomes(parts: list[tuple[float, float]]) -> Iterator[Outcome]:
    for run in RECORDED.values():
        trials = len(run["tasks"].split())
        for done, more in parts:
            if found := outcome(run, round(trials * done), round(trials * more)):
                yield found


@pytest.mark.parametrize(("parts", "fewest"), [(PARTS, 40), (HALVES, 20)])
def test_the_interval_holds_about_as_often_as_it_promises(parts: list[tuple[float, float]], fewest: int) -> None:
    found = list(outcomes(parts))
    assert len(found) >= fewest
    assert gaining.LIKELY - 0.1 <= mean(one.right for one in found) <= gaining.LIKELY + 0.1
    assert mean(one.most - one.least for one in found) < 0.2, "an interval that says something"


@pytest.mark.parametrize("parts", [PARTS, HALVES])
def test_expectations_are_neither_too_high_nor_too_low_on_average(parts: list[tuple[float, float]]) -> None:
    found = list(outcomes(parts))
    assert abs(mean(one.expected - one.came for one in found)) < 0.02
    assert mean(abs(one.expected - one.came) for one in found) < 0.07
