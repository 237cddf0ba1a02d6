from __future__ import annotations

from tuning.engines.meta_schedule.plateau import Plateau


def reached_after(plateau: Plateau, *latencies: float | None) -> int | None:
    for nth, latency in enumerate(latencies, start=1):
        plateau.add(latency)
        if plateau.reached:
            return nth
    return None


def test_it_is_reached_after_enough_trials_with_too_little_gain() -> None:
    assert reached_after(Plateau(5.0, 3), 100.0, 99.0, 98.0, 97.0, 90.0) == 4


def test_small_gains_add_up() -> None:
    assert reached_after(Plateau(5.0, 3), 100.0, 98.0, 96.0, 94.0, 92.0, 90.0, 88.0) is None


def test_failed_trials_count_as_no_gain() -> None:
    assert reached_after(Plateau(5.0, 3), None, None, None) == 3
    assert reached_after(Plateau(5.0, 3), None, None, 1.0, None, None) is None


def test_it_is_never_reached_without_a_number_of_trials() -> None:
    assert reached_after(Plateau(1.0, None), *[1.0] * 1000) is None
