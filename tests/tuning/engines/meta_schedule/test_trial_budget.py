from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tuning.engines.meta_schedule.trial_budget import Allotment
from tuning.engines.wire.protocol import Options

Measure = Callable[[int, int], "float | None"]


def spend(allotment: Allotment, budget: int, measure: Measure) -> list[tuple[int, int]]:
    """Tune until the budget is spent or nobody wants more; gives (task, trials) of each batch."""
    batches: list[tuple[int, int]] = []
    done = 0
    while (left := budget - done) and (task := allotment.next(left)) is not None:
        size = allotment.share(task, left)
        assert 1 <= size <= left
        allotment.standings[task].under_way += size
        for _ in range(size):
            allotment.ended(task, measure(task, allotment.standings[task].trials + 1))
        batches.append((task, size))
        done += size
    return batches


def trials(batches: list[tuple[int, int]]) -> Counter[int]:
    counted: Counter[int] = Counter()
    for task, size in batches:
        counted[task] += size
    return counted


def well(task: int, nth: int) -> float:
    """Task i takes i + 1 ms at first, and halves with each doubling of its trials."""
    return (task + 1) * 1e-3 / nth


def of(tasks: int, **options: object) -> Allotment:
    return Allotment([1] * tasks, range(tasks), Options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("scheduler", ["gradient", "round-robin"])
@pytest.mark.parametrize("budget", [18, 19, 48, 100, 1000])
def test_it_measures_every_task_before_the_budget_is_spent(budget: int, scheduler: str) -> None:
    batches = spend(of(18, task_scheduler=scheduler), budget, well)
    assert set(trials(batches)) == set(range(18))
    assert sum(trials(batches).values()) == budget


def test_it_gives_whole_batches_where_the_budget_allows() -> None:
    assert spend(of(3), 48, well) == [(0, 16), (1, 16), (2, 16)]


def test_it_shares_a_small_budget_fairly() -> None:
    first_round = spend(of(18), 48, well)[:18]
    assert [task for task, _ in first_round] == list(range(18))
    assert {size for _, size in first_round} == {2, 3}


def test_it_tries_a_task_again_whose_batch_failed() -> None:
    """TVM's gradient scheduler never would while a measured task lives."""
    batches = spend(of(3), 96, lambda task, nth: None if task == 1 and nth <= 20 else well(task, nth))
    assert trials(batches)[1] > 20, "its second batch has a valid trial"


def test_a_task_that_always_fails_does_not_eat_up_the_budget_of_the_others() -> None:
    counted = trials(spend(of(4), 400, lambda task, nth: None if task == 2 else well(task, nth)))
    assert counted == {0: 64, 1: 96, 2: 112, 3: 128}


def test_the_last_trials_are_those_of_tasks_without_a_latency() -> None:
    batches = spend(of(2, trials_per_batch=4), 12, lambda task, nth: None if task == 1 and nth < 6 else well(task, nth))
    assert batches == [(0, 4), (1, 4), (1, 4)]


def test_a_lone_task_that_fails_is_tried_to_the_end() -> None:
    assert sum(size for _, size in spend(of(1), 50, lambda _task, _nth: None)) == 50


def test_the_gradient_prefers_the_task_that_weighs_most() -> None:
    heavy = Allotment([1, 9], range(2), Options(trials_per_batch=4))
    counted = trials(spend(heavy, 80, lambda _task, nth: 1e-3 / nth))
    assert counted[1] > 2 * counted[0]


def test_it_heeds_the_limit_of_each_task() -> None:
    assert trials(spend(of(3, max_trials_per_task=5), 100, well)) == {0: 5, 1: 5, 2: 5}


def test_it_tunes_the_chosen_tasks_only() -> None:
    chosen = Allotment([1] * 9, [3, 7], Options(tasks=[3, 7]))
    assert set(trials(spend(chosen, 64, well))) == {3, 7}


def test_trials_of_tasks_that_gain_no_more_go_to_the_others() -> None:
    allotment = of(2, trials_per_batch=4, plateau_trials=10, plateau_percent=5.0)
    counted = trials(spend(allotment, 200, lambda task, nth: 1e-3 if task == 0 else 1e-3 * 0.9**nth))
    assert counted[0] <= 16
    assert counted[1] == 200 - counted[0]


def test_it_gives_up_when_no_task_gains() -> None:
    allotment = of(2, trials_per_batch=4, plateau_trials=10)
    counted = trials(spend(allotment, 200, lambda _task, _nth: 1e-3))
    assert allotment.gave_up
    assert max(counted.values()) <= 16


def test_who_continues_a_run_wants_more_of_each_task() -> None:
    allotment = of(1, plateau_trials=3)
    for _ in range(10):
        allotment.earlier(0, 1e-3)
    assert allotment.next(left=5) == 0
    assert [allotment.ended(0, latency) for latency in (1e-3, 0.995e-3, None)] == [False, False, True]
    assert allotment.next(left=2) is None


def test_it_passes_over_tasks_with_nothing_left_to_try() -> None:
    allotment = of(2)
    allotment.standings[0].exhausted = True
    assert set(trials(spend(allotment, 40, well))) == {1}
