"""Which strategy finds a batch's candidates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tuning.engines.meta_schedule.search import Search
from tuning.engines.meta_schedule.strategies import WARMUP_TRIALS
from tuning.engines.meta_schedule.trial_budget import TrialBudget
from tuning.engines.wire.protocol import Options, WarmStarted

pytestmark = pytest.mark.tvm


def search(done: int = 0, warm: tuple[int, ...] = ()) -> Search:
    """Of two tasks."""
    trials: Any = SimpleNamespace(done=done, budget=TrialBudget([1, 1], [0, 1], Options()))
    prior: Any = SimpleNamespace(warm_started=WarmStarted(list(warm), [1]))
    return Search(trials, {}, None, prior)


def test_first_candidates_are_drawn_until_the_cost_model_ranks() -> None:
    assert search().begins(0)
    assert search(done=WARMUP_TRIALS - 1).begins(1)
    assert not search(done=WARMUP_TRIALS).begins(1)
    assert not search(warm=(0,)).begins(1), "it is trained with the records of earlier runs"


def test_a_tasks_second_batch_is_searched() -> None:
    begun = search()
    begun.trials.budget.progress[0].in_flight = 4
    assert (begun.begins(0), begun.begins(1)) == (False, True)
    begun.trials.budget.add_trial(0, None)
    begun.trials.budget.progress[0].in_flight = 0
    assert not begun.begins(0)
