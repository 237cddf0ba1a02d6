"""The race with a stand-in for the clock: what is slow, what is noise."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tuning.engines.measuring import race


class Track:
    """Gives one lap time after the other."""

    def __init__(self, laps: Iterable[float]) -> None:
        self._laps = iter(laps)
        self.run = 0

    def __call__(self, count: int) -> list[float]:
        self.run += count
        return [next(self._laps) for _ in range(count)]


def test_a_fast_candidate_is_let_off_after_the_first_laps() -> None:
    track = Track([9e-4, 1.1e-3])
    assert race.lost(track, 1e-3, at_least=2) is None
    assert track.run == 2


def test_a_slow_candidate_loses_in_all_laps() -> None:
    track = Track([3e-3] * race.LAPS)
    assert race.lost(track, 1e-3, at_least=2) == [3e-3] * race.LAPS


@pytest.mark.parametrize("undisturbed", range(race.LAPS))
def test_noise_in_all_laps_but_one_does_not_lose_a_race(undisturbed: int) -> None:
    laps = [5e-3] * race.LAPS
    laps[undisturbed] = 9e-4
    assert race.lost(Track(laps), 1e-3, at_least=2) is None


@pytest.mark.parametrize(("lap_s", "laps"), [(1e-6, race.LAPS), (1e-2, 4), (3e-2, 2), (1.0, 2)])
def test_a_slow_function_needs_fewer_laps(lap_s: float, laps: int) -> None:
    track = Track([lap_s] * race.LAPS)
    assert race.lost(track, lap_s / 2, at_least=2) == [lap_s] * laps


def test_it_runs_more_laps_than_there_are_repeats() -> None:
    assert race.lost(Track([1.0] * 9), 1e-3, at_least=9) == [1.0] * 9
