from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tuning.engines.meta_schedule.trial_budget import TrialBudget, pooled_batch
from tuning.engines.wire.options.meta_schedule import Options

Measure = Callable[[int, int], "float | None"]


def spend(budget: TrialBudget, total: int, measure: Measure) -> list[tuple[int, int]]:
    """Spend the trials, or as many as tasks may have, and return (task, trials) for each batch."""
    batches: list[tuple[int, int]] = []
    done = 0
    while (left := total - done) and (task := budget.next_task(left)) is not None:
        size = budget.batch_size(task, left)
        assert 1 <= size <= left
        budget.progress[task].in_flight += size
        for _ in range(size):
            budget.add_trial(task, measure(task, budget.progress[task].trials + 1))
        batches.append((task, size))
        done += size
    return batches


def trials(batches: list[tuple[int, int]]) -> Counter[int]:
    counted: Counter[int] = Counter()
    for task, size in batches:
        counted[task] += size
    return counted


def improving(task: int, nth: int) -> float:
    """Task i starts at i + 1 ms, and halves each time its trials double."""
    return (task + 1) * 1e-3 / nth


def budget_for(tasks: int, **options: object) -> TrialBudget:
    return TrialBudget([1] * tasks, range(tasks), Options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("scheduler", ["gradient", "round-robin"])
@pytest.mark.parametrize("total", [18, 19, 48, 100, 1000])
def test_it_measures_every_task_before_the_budget_is_spent(total: int, scheduler: str) -> None:
    batches = spend(budget_for(18, task_scheduler=scheduler), total, improving)
    assert set(trials(batches)) == set(range(18))
    assert sum(trials(batches).values()) == total


@pytest.mark.parametrize(("total", "size"), [(18, 1), (100, 1), (320, 2), (400, 3), (480, 4), (10_000, 4)])
def test_it_begins_with_a_few_trials_of_every_task(total: int, size: int) -> None:
    """As many as fit in 15 % of the budget, and no more than 4."""
    assert spend(budget_for(18), total, improving)[:18] == [(task, size) for task in range(18)]


def test_then_the_gradient_gives_full_batches() -> None:
    batches = spend(budget_for(18), 320, improving)[18:]
    assert {size for _, size in batches[:-1]} == {16}
    assert batches[0][0] == 17, "its total latency is the largest"


def test_a_single_task_begins_with_a_full_batch() -> None:
    assert spend(budget_for(1), 40, improving) == [(0, 16), (0, 16), (0, 8)]


def test_the_first_pass_may_be_larger_up_to_full_batches() -> None:
    assert spend(budget_for(3, first_trials=16), 48, improving) == [(0, 16), (1, 16), (2, 16)]
    assert spend(budget_for(2, first_trials=16, trials_per_batch=5), 10, improving) == [(0, 5), (1, 5)]


def test_it_divides_a_small_budget_evenly() -> None:
    first_round = spend(budget_for(18, first_trials=16), 48, improving)[:18]
    assert [task for task, _ in first_round] == list(range(18))
    assert {size for _, size in first_round} == {2}


def test_no_task_starves_or_devours_the_budget() -> None:
    """Latencies of whole networks span three orders of magnitude, and first trials are off by another."""
    budget = TrialBudget([1] * 18, range(18), Options())
    counted = trials(spend(budget, 640, lambda task, nth: 1e-6 * 1.5**task * (1 + 9 / nth)))
    assert min(counted.values()) >= 4
    assert max(counted.values()) <= 640 / 2
    assert counted[17] == max(counted.values())


def test_tasks_that_fail_get_larger_batches_until_one_is_valid() -> None:
    budget = budget_for(2)
    batches = spend(budget, 200, lambda task, nth: None if task == 1 and nth < 40 else 1e-3)
    assert [size for task, size in batches if task == 1][:5] == [4, 4, 8, 16, 16]


def test_a_resumed_run_goes_on_with_the_tasks_that_have_no_latency() -> None:
    budget = budget_for(3)
    for task in (0, 0, 0, 1):
        budget.add_recorded(task, 1e-3 if task == 0 else None)
    assert spend(budget, 96, improving)[:2] == [(2, 4), (1, 4)]


def test_it_returns_to_a_task_whose_first_batch_failed() -> None:
    """TVM's gradient scheduler doesn't, as long as a measured task has trials left."""
    batches = spend(budget_for(3), 96, lambda task, nth: None if task == 1 and nth <= 20 else improving(task, nth))
    assert trials(batches)[1] > 20, "its second batch has a valid trial"


def test_a_task_that_always_fails_gets_no_more_than_its_share() -> None:
    counted = trials(spend(budget_for(4), 400, lambda task, nth: None if task == 2 else improving(task, nth)))
    assert counted == {0: 68, 1: 100, 2: 100, 3: 132}


def test_the_last_trials_go_to_unmeasured_tasks() -> None:
    batches = spend(
        budget_for(2, trials_per_batch=4, first_trials=4),
        12,
        lambda task, nth: None if task == 1 and nth < 6 else improving(task, nth),
    )
    assert batches == [(0, 4), (1, 4), (1, 4)]


def test_a_single_task_that_always_fails_gets_all_trials() -> None:
    assert sum(size for _, size in spend(budget_for(1), 50, lambda _task, _nth: None)) == 50


def test_the_gradient_prefers_the_task_with_the_largest_weight() -> None:
    heavy = TrialBudget([1, 9], range(2), Options(trials_per_batch=4))
    counted = trials(spend(heavy, 80, lambda _task, nth: 1e-3 / nth))
    assert counted[1] > 2 * counted[0]


def test_it_respects_the_limit_per_task() -> None:
    assert trials(spend(budget_for(3, max_trials_per_task=5), 100, improving)) == {0: 5, 1: 5, 2: 5}


def test_it_tunes_only_the_chosen_tasks() -> None:
    chosen = TrialBudget([1] * 9, [3, 7], Options(tasks=[3, 7]))
    assert set(trials(spend(chosen, 64, improving))) == {3, 7}


def test_trials_of_a_task_on_its_plateau_go_to_the_others() -> None:
    budget = budget_for(2, trials_per_batch=4, plateau_trials=10, plateau_percent=5.0)
    counted = trials(spend(budget, 200, lambda task, nth: 1e-3 if task == 0 else 1e-3 * 0.9**nth))
    assert counted[0] <= 16
    assert counted[1] == 200 - counted[0]


def test_it_ends_when_every_task_is_on_its_plateau() -> None:
    budget = budget_for(2, trials_per_batch=4, plateau_trials=10)
    counted = trials(spend(budget, 200, lambda _task, _nth: 1e-3))
    assert budget.on_plateau
    assert max(counted.values()) <= 16


def test_plateaus_start_anew_when_a_run_is_resumed() -> None:
    budget = budget_for(1, plateau_trials=3)
    for _ in range(10):
        budget.add_recorded(0, 1e-3)
    assert budget.next_task(left=5) == 0
    assert [budget.add_trial(0, latency) for latency in (1e-3, 0.995e-3, None)] == [False, False, True]
    assert budget.next_task(left=2) is None


def test_it_skips_exhausted_tasks() -> None:
    budget = budget_for(2)
    budget.progress[0].exhausted = True
    assert set(trials(spend(budget, 40, improving))) == {1}


def looked_ahead(scheduler: str) -> list[int]:
    """Which tasks get the next six batches while nothing ends, after each of three has had one."""
    options = Options(trials_per_batch=4, first_trials=4, task_scheduler=scheduler)  # type: ignore[arg-type]
    budget = TrialBudget([1] * 3, range(3), options, ahead=True)
    spend(budget, 12, improving)
    tasks = []
    for _ in range(6):
        task = budget.next_task(1000)
        assert task is not None
        budget.progress[task].in_flight += budget.batch_size(task, 1000)
        tasks.append(task)
    return tasks


def test_what_is_looked_ahead_is_shared_among_tasks() -> None:
    assert looked_ahead("gradient") == [2, 1, 2, 0, 1, 2]
    assert looked_ahead("round-robin") == [0, 1, 2, 0, 1, 2]


def test_before_anything_is_measured_tasks_that_are_looked_ahead_take_turns() -> None:
    budget = TrialBudget([1] * 2, range(2), Options(trials_per_batch=4), ahead=True)
    tasks = []
    for _ in range(4):
        task = budget.next_task(100)
        assert task is not None
        budget.progress[task].in_flight += 4
        tasks.append(task)
    assert tasks == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("asked", "slots", "trials", "batch"),
    [
        (16, 8, 1000, 16),
        (16, 40, 1000, 40),
        (16, 500, 5000, 64),
        (128, 40, 1000, 128),
        (16, 40, 64, 16),
        (4, 40, 64, 6),
    ],
)
def test_batches_grow_with_the_pool_as_far_as_the_budget_allows(
    asked: int, slots: int, trials: int, batch: int
) -> None:
    assert pooled_batch(Options(trials_per_batch=asked), slots, trials) == batch


def with_rivals(**options: object) -> TrialBudget:
    """Two tasks, and a third one that computes what the first does."""
    return TrialBudget([1, 1, 1], range(3), Options(**options), rivals={0: 2, 2: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(("slow", "fast"), [(0, 2), (2, 0)])
def test_a_task_that_is_far_behind_its_rival_gets_no_more_trials(slow: int, fast: int) -> None:
    counted = trials(spend(with_rivals(), 160, lambda task, nth: improving(task, nth) * (9 if task == slow else 1)))
    assert counted[slow] == 4, "a few trials, however large the batches are"
    assert counted[fast] > 40
    assert sum(counted.values()) == 160


def test_a_task_that_is_a_little_behind_its_rival_gets_another_chance() -> None:
    counted = trials(spend(with_rivals(), 160, lambda task, nth: 1.2e-3 if task == 2 else 1e-3))
    assert counted[2] > 4
    assert counted[2] < counted[0]


def test_a_task_whose_trials_all_fail_leaves_them_to_its_rival() -> None:
    counted = trials(spend(with_rivals(), 160, lambda task, nth: None if task == 2 else improving(task, nth)))
    assert counted[2] <= 16
    assert sum(counted.values()) == 160


def test_a_task_whose_rival_fails_is_not_behind() -> None:
    budget = with_rivals()
    counted = trials(spend(budget, 160, lambda task, nth: None if task == 0 else improving(task, nth)))
    assert counted[2] > 40
    assert budget.preferred(0) == budget.preferred(2) == (2, 0)


def test_it_tells_which_of_two_rivals_is_faster() -> None:
    budget = with_rivals()
    assert budget.preferred(1) is None, "it has no rival"
    assert budget.preferred(0) is None, "neither was measured"
    budget.progress[0].add(2e-3)
    assert budget.preferred(2) == (0, 2)
    budget.progress[2].add(2e-3)
    assert budget.preferred(0) == (0, 2), "the network's own algorithm, as neither is faster"
    budget.progress[2].add(1e-3)
    assert budget.preferred(0) == budget.preferred(2) == (2, 0)
