"""What a run tells of the time that it will still take."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import claimed, make_run, make_tasks, record_trials
from tuning.models import Run

pytestmark = pytest.mark.django_db


def started(trials: int, **values: Any) -> Run:
    """A run of rounds of 4 trials, of which so many have been measured, one a second."""
    given = {"options": {"trials_per_batch": 4, "first_trials": 4}, "trials_budget": 40, **values}
    run = claimed(make_run(**given))
    make_tasks(run, 2)
    if trials:
        record_trials(run, [(number % 2, 1e-3) for number in range(trials)])
    return Run.objects.get(pk=run.pk)


def test_it_is_not_known_before_the_first_round_has_ended() -> None:
    shown = started(3).to_dict(tasks=[])
    assert shown["remaining"] is None
    assert shown["words"]["remaining"] == "not known yet"


def test_it_is_told_from_whole_rounds() -> None:
    shown = started(13).to_dict(tasks=[])
    assert shown["remaining"] == {"s": 27.0, "least_s": 27.0, "most_s": 27.0, "round_s": 3.0}
    assert shown["words"]["remaining"] == ""


def test_a_time_limit_may_come_first() -> None:
    left = started(12, time_limit_s=20.0).remaining()
    assert left is not None
    assert left.s == 8.0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"status": "stopping"}, "it is being stopped"),
        ({"status": "finished"}, "the run has ended"),
        ({"trials_budget": None}, "it has no budget"),
        ({"elapsed_s": None}, "times aren’t recorded"),
    ],
)
def test_it_says_why_nothing_is_told(changed: dict[str, Any], said: str) -> None:
    run = started(12)
    for name, value in changed.items():
        setattr(run, name, value)
    shown = run.to_dict(tasks=[])
    assert shown["remaining"] is None
    assert shown["words"]["remaining"] == said


def test_nothing_is_told_before_a_round_after_the_first_pass() -> None:
    """Of 2 tasks with 3 trials each; its searches take longer than those that follow."""
    runs = [started(trials, options={"trials_per_batch": 4}, device=f"rpc:{trials}") for trials in (5, 9, 10)]
    for run in runs:
        run.trials.filter(number__lte=6).update(at_s=0.5)
    runs[2].trials.filter(number__gt=6).update(at_s=8.5)
    runs[2].elapsed_s = 8.5
    assert [run.remaining() for run in runs[:2]] == [None, None]
    left = runs[2].remaining()
    assert left is not None
    assert left.s == 60.0, "7.5 rounds of 8 s"


def test_its_rounds_are_read_once_each(django_assert_num_queries: Any) -> None:
    run = started(13)
    with django_assert_num_queries(1):
        first = run.remaining()
    with django_assert_num_queries(0):
        run.trials_done, run.elapsed_s = 14, 14.0
        second = run.remaining()
    assert first is not None
    assert second is not None
    assert (first.s, second.s) == (27.0, 26.0)


def test_only_the_latest_rounds_count() -> None:
    run = started(0, trials_budget=400)
    slow, fast = [(0, 1e-3)] * 40, [(0, 1e-3)] * 4 * 32
    record_trials(run, slow)
    run.trials.filter(number__lte=40).update(at_s=1000.0)
    record_trials(Run.objects.get(pk=run.pk), fast)
    run = Run.objects.get(pk=run.pk)
    run.trials.filter(number__gte=40).update(at_s=1000.0)
    run.elapsed_s = 1000.0
    left = run.remaining()
    assert left is not None
    assert left.s == 0.0, "the latest 32 rounds took no time"


@pytest.mark.parametrize(
    ("trials", "values", "left_s"),
    [
        (12, {}, 28.0 + 3.0),  # 2 tasks, of which half of 3 records are measured 5 times for 0.2 s.
        (40, {}, 3.0),
        (12, {"device": "rpc:lab/pi"}, 28.0 + 3.0),
        (12, {"machines_wanted": 2}, 28.0),
        (12, {"time_limit_s": 42.0}, 30.0),
    ],
)
def test_what_confirming_takes_is_part_of_it(trials: int, values: dict[str, Any], left_s: float) -> None:
    options = {"trials_per_batch": 4, "first_trials": 4, "confirm": 3, "min_repeat_ms": 200}
    left = started(trials, options=options, **values).remaining()
    assert left is not None
    assert left.s == pytest.approx(left_s)
