"""Refusals are recorded, but nobody can fill the log with them."""

from __future__ import annotations

from tuning.audit.refusals import MOST, WINDOW_S, Refusals


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def recorded(refusals: Refusals, source: str, same: object, times: int) -> list[dict[str, int]]:
    found = [refusals.counted(source, same) for _ in range(times)]
    return [numbers for numbers in found if numbers is not None]


def test_the_same_refusal_is_counted() -> None:
    found = recorded(Refusals(), "7", "stop", 1000)
    assert found[0] == {}
    assert found[1:] == [{"times_within_a_minute": 2**power} for power in range(1, 10)]


def test_the_next_minute_begins_anew() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    assert len(recorded(refusals, "7", "stop", 3)) == 2
    clock.now = WINDOW_S
    assert recorded(refusals, "7", "stop", 1) == [{}]


def test_many_different_ones_of_one_source_are_limited() -> None:
    refusals = Refusals()
    found = [refusals.counted("", number) for number in range(100_000)]
    kept = [numbers for numbers in found if numbers is not None]
    assert kept[:MOST] == [{}] * MOST
    assert kept[MOST:] == [{"refusals_within_a_minute": 2**power} for power in range(5, 17)]
    assert len(refusals._same) == MOST


def test_strangers_dont_hide_what_a_person_is_refused() -> None:
    refusals = Refusals()
    for number in range(1000):
        refusals.counted("", number)
    assert refusals.counted("7", "stop") == {}


def test_a_refusal_that_is_known_is_counted_however_many_others_there_are() -> None:
    refusals = Refusals()
    for number in range(1000):
        refusals.counted("7", number)
    assert refusals.counted("7", 3) == {"times_within_a_minute": 2}
