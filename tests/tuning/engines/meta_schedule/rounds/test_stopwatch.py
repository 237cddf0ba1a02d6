"""Every second of a process belongs to one round, whatever happens meanwhile."""

from __future__ import annotations

import pytest

from tuning.engines.meta_schedule.rounds.stopwatch import Stopwatch
from tuning.engines.wire.protocol import Round


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sent() -> list[Round]:
    return []


@pytest.fixture
def watch(clock: Clock, sent: list[Round]) -> Stopwatch:
    return Stopwatch(sent.append, clock, clock.now)


def test_the_start_is_a_round_without_a_task(watch: Stopwatch, clock: Clock, sent: list[Round]) -> None:
    clock.now = 12.5
    watch.begin(3, 0)
    assert sent == [Round(None, 0, 0, 10.0, 12.5)]


def test_each_second_belongs_to_what_was_done(watch: Stopwatch, clock: Clock, sent: list[Round]) -> None:
    times = watch.begin(0, 0)
    watch.hold(times, 2)
    for kind, seconds in (("search", 1.0), ("build", 2.0), ("measure", 4.0)):
        with watch.doing(kind):  # type: ignore[arg-type]
            clock.now += seconds
    clock.now += 0.5
    with watch.doing("wait"):
        clock.now += 1.0
        with watch.doing("learn"):
            clock.now += 8.0
        clock.now += 1.0
    watch.ended(times)
    watch.ended(times)
    watch.begin(1, 2)
    expected = Round(0, 0, 2, 10.0, 27.5, search_s=1.0, learn_s=8.0, build_s=2.0, measure_s=4.0, wait_s=2.0)
    assert sent[-1] == expected


def test_a_round_is_told_once_its_trials_have_ended_and_in_order(
    watch: Stopwatch, clock: Clock, sent: list[Round]
) -> None:
    first = watch.begin(0, 0)
    watch.hold(first, 2)
    clock.now = 11.0
    second = watch.begin(1, 0)
    watch.hold(second, 1)
    watch.begin(2, 0)
    watch.built_beside(second, 0.25)
    watch.built_beside(second, 0.5)
    watch.ended(second, measure_s=3.0)
    watch.ended(first, build_s=0.5, measure_s=1.0)
    assert [one.task for one in sent] == [None]
    watch.ended(first, measure_s=1.0)
    assert [one.task for one in sent] == [None, 0, 1]
    assert (sent[1].beside_build_s, sent[1].beside_measure_s, sent[2].beside_measure_s) == (0.5, 2.0, 3.0)
    assert sent[2].beside_build_s == 0.75
    assert (sent[1].began_s, sent[1].ended_s, sent[1].measure_s) == (10.0, 11.0, 0.0)


def test_a_round_without_candidates_is_told_at_once(watch: Stopwatch, sent: list[Round]) -> None:
    watch.begin(0, 0)
    watch.begin(1, 0)
    assert [(one.task, one.candidates) for one in sent] == [(None, 0), (0, 0)]


def test_at_the_end_the_rest_is_told_as_far_as_it_got(watch: Stopwatch, clock: Clock, sent: list[Round]) -> None:
    times = watch.begin(0, 4)
    watch.hold(times, 4)
    with watch.doing("build"):
        clock.now += 3.0
        (last,) = watch.close()
    assert (last.task, last.began_s, last.ended_s, last.build_s) == (0, 10.0, 13.0, 3.0)
    for _ in range(4):
        watch.ended(times)
    watch.begin(1, 8)
    assert watch.close() == []
    assert [one.task for one in sent] == [None], "nothing follows the last event"
