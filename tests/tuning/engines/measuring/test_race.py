"""Races with given lap times."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tuning.engines.measuring import race


class Laps:
    """Returns the given lap times in order."""

    def __init__(self, laps: Iterable[float]) -> None:
        self._laps = iter(laps)
        self.measured = 0

    def __call__(self, count: int) -> list[float]:
        self.measured += count
        return [next(self._laps) for _ in range(count)]


def test_a_fast_candidate_runs_the_first_laps_only() -> None:
    laps = Laps([9e-4, 1.1e-3])
    assert race.lost_laps(laps, 1e-3, at_least=2) is None
    assert laps.measured == 2


def test_a_slow_candidate_runs_all_laps() -> None:
    laps = Laps([3e-3] * race.LAPS)
    assert race.lost_laps(laps, 1e-3, at_least=2) == [3e-3] * race.LAPS


@pytest.mark.parametrize("undisturbed", range(race.LAPS))
def test_noise_in_all_laps_but_one_loses_no_race(undisturbed: int) -> None:
    times = [5e-3] * race.LAPS
    times[undisturbed] = 9e-4
    assert race.lost_laps(Laps(times), 1e-3, at_least=2) is None


@pytest.mark.parametrize(("lap_s", "count"), [(1e-6, race.LAPS), (1e-2, 4), (3e-2, 2), (1.0, 2)])
def test_a_slow_function_runs_fewer_laps(lap_s: float, count: int) -> None:
    laps = Laps([lap_s] * race.LAPS)
    assert race.lost_laps(laps, lap_s / 2, at_least=2) == [lap_s] * count


def test_it_runs_at_least_the_laps_asked_for() -> None:
    assert race.lost_laps(Laps([1.0] * 9), 1e-3, at_least=9) == [1.0] * 9
