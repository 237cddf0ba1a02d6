"""For how long a run will go on: sums by hand, and the times of real runs."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
from scipy.stats import t as student

from tuning import forecast as forecasting
from tuning.forecast import FEWEST, LIKELY, Forecast, forecast

RECORDED = json.loads((Path(__file__).parents[1] / "data/recorded_times.json").read_text())
"""When the trials of real runs ended, each with its network, on two cores that others used as well."""
LATEST = 32
"""Trials that the speed is computed from."""


def known(found: Forecast | None) -> Forecast:
    assert found is not None
    return found


def test_nothing_is_known_before_a_round_has_ended() -> None:
    assert forecast([], 64, 3.0) is None
    assert forecast([(0, 0.0)], 64, 30.0) is None


def test_what_is_left_takes_as_long_as_whole_rounds_took() -> None:
    assert forecast([(0, 0.0), (16, 20.0)], 64, 20.0) == (60.0, None, None, 20.0)
    assert known(forecast([(0, 0.0), (16, 20.0), (32, 30.0)], 64, 30.0)).s == 30.0
    assert known(forecast([(16, 20.0), (32, 30.0), (48, 42.0)], 64, 42.0)).s == 11.0, "without the first round"


def test_the_last_round_may_be_smaller() -> None:
    assert forecast([(0, 0.0), (16, 20.0)], 24, 20.0) == (10.0, None, None, 10.0)
    assert forecast([(0, 0.0), (16, 20.0)], 16, 20.0) == (0.0, None, None, 0.0)


@pytest.mark.parametrize(("passed_s", "s", "round_s"), [(0, 60, 20), (15, 45, 5), (20, 40, 0), (90, 40, 0)])
def test_a_late_round_leaves_those_after_it(passed_s: float, s: float, round_s: float) -> None:
    assert forecast([(0, 0.0), (16, 20.0)], 64, 20.0 + passed_s) == (s, None, None, round_s)


def test_it_tells_an_interval_that_grows_with_the_spread() -> None:
    even, uneven = (
        known(forecast([(0, 0.0), (16, first), (32, 40.0), (48, 60.0)], 160, 60.0)) for first in (20.0, 10.0)
    )
    assert (even.least_s, even.s, even.most_s) == (140.0, 140.0, 140.0)
    assert uneven.s == 140.0
    assert uneven.least_s is not None
    assert uneven.most_s is not None
    assert 0 < uneven.least_s < 100
    assert uneven.most_s > 180
    assert uneven.s - uneven.least_s == pytest.approx(uneven.most_s - uneven.s)


def test_no_bound_is_below_zero() -> None:
    assert known(forecast([(0, 0.0), (16, 1.0), (32, 90.0), (48, 91.0)], 64, 91.0)).least_s == 0.0


def test_a_time_limit_ends_it_earlier() -> None:
    assert Forecast(60.0, 40.0, 80.0, 20.0).within(50.0) == (50.0, 40.0, 50.0, 20.0)
    assert Forecast(60.0, None, None, 20.0).within(-1.0) == (0.0, None, None, 0.0)


@pytest.mark.parametrize("freedom", [2, 3, 5, 10, 31])
def test_its_quantile_is_students(freedom: int) -> None:
    exact = student.ppf((1 + LIKELY) / 2, freedom)
    assert forecasting._quantile(freedom) == pytest.approx(exact, rel=0.02)


def at(times: list[float], size: int, done: int) -> Forecast:
    """What was told of the run after so many trials."""
    rounds = range(size, done + 1, size)
    ends = [(0, 0.0), *((number, times[number - 1]) for number in rounds)]
    return known(forecast(ends[-forecasting.ROUNDS - 1 :], len(times), times[done - 1]))


def by_speed(times: list[float], done: int) -> float:
    """What the speed of the latest trials would tell."""
    latest = times[max(0, done - LATEST) : done]
    return (len(times) - done) * (latest[-1] - latest[0]) / (len(latest) - 1)


def off(told: float, times: list[float], done: int) -> float:
    """By how many seconds a forecast was wrong."""
    return abs(told - (times[-1] - times[done - 1]))


@pytest.mark.parametrize("network", RECORDED)
def test_rounds_tell_more_than_the_speed_of_the_latest_trials(network: str) -> None:
    times, size = RECORDED[network]["at_s"], RECORDED[network]["trials_per_batch"]
    later = range(FEWEST * size, len(times) - size)
    by_rounds = mean(off(at(times, size, done).s, times, done) for done in later)
    assert by_rounds < 0.9 * mean(off(by_speed(times, done), times, done) for done in later)


@pytest.mark.parametrize("network", RECORDED)
def test_a_forecast_does_not_jump_within_a_round(network: str) -> None:
    """As trials come in bursts, the speed of the latest ones does."""
    times, size = RECORDED[network]["at_s"], RECORDED[network]["trials_per_batch"]
    for first in range(FEWEST * size, len(times) - size, size):
        ended = [at(times, size, done).s + times[done - 1] for done in range(first, first + size)]
        assert all(after >= before - 1e-6 for before, after in pairwise(ended)), "it only counts down, or is late"


def test_real_times_are_mostly_within_the_interval() -> None:
    told = [
        (at(network["at_s"], network["trials_per_batch"], done), network["at_s"][-1] - network["at_s"][done - 1])
        for network in RECORDED.values()
        for done in range(FEWEST * network["trials_per_batch"], len(network["at_s"]) - 8)
    ]
    inside = [one.least_s <= real <= one.most_s for one, real in told if one.least_s is not None and one.most_s]
    assert len(inside) == len(told)
    assert mean(inside) > 0.6, "the runs drifted: others began to use the machine"
