"""Which strategy finds a batch's candidates."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tuning.engines.meta_schedule.search import Search, Strategy
from tuning.engines.meta_schedule.strategies import WARMUP_TRIALS
from tuning.engines.meta_schedule.trial_budget import TrialBudget
from tuning.engines.wire.options.meta_schedule import Options

pytestmark = pytest.mark.tvm


def search(*, done: int = WARMUP_TRIALS) -> Search:
    """Of two tasks, in a run with so many trials."""
    budget = TrialBudget([1, 1], [0, 1], Options())
    trials: Any = SimpleNamespace(budget=budget, done=done)
    prior: Any = None
    return Search(trials, {}, None, prior)


def batch(begun: Search, task: int, *, ranked: bool = False, drawn: Sequence[str] = ("drawn",)) -> list[str]:
    """The task's next one as TVM asks for it, but with names in place of candidates; `ranked` says whether the cost model can rank candidates."""
    inner: Any = SimpleNamespace(generate_measure_candidates=lambda: ["searched"])
    first: Any = SimpleNamespace(could_be_ranked=ranked, draw=lambda size: list(drawn)[:size])
    strategy: Any = Strategy(inner, begun, first)
    strategy._inst._task = task
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(begun, "next_batch", lambda _task, generate: generate(16))
        found: list[str] = strategy._inst.generate_measure_candidates()
    return found


def test_first_candidates_are_drawn_until_the_cost_model_ranks() -> None:
    assert batch(search(), 0) == ["drawn"]
    assert batch(search(), 1) == ["drawn"]
    assert batch(search(), 1, ranked=True) == ["searched"]


def test_they_always_are_if_there_are_sketches_with_register_tiles() -> None:
    tiled = search()
    tiled.marked = {0: {"registers"}, 1: set()}
    assert batch(tiled, 0, ranked=True) == ["drawn"]
    assert batch(tiled, 1, ranked=True) == ["drawn"], "its own are small enough to draw from, such as a pool's"


def test_a_tasks_second_batch_is_searched() -> None:
    begun = search()
    begun.trials.budget.progress[0].in_flight = 4
    assert (batch(begun, 0), batch(begun, 1)) == (["searched"], ["drawn"])
    begun.trials.budget.add_trial(0, None)
    begun.trials.budget.progress[0].in_flight = 0
    assert batch(begun, 0) == ["searched"]


def test_second_batches_are_drawn_too_as_long_as_there_are_too_few_trials_to_rank_by() -> None:
    begun = search(done=WARMUP_TRIALS - 1)
    begun.trials.budget.progress[0].in_flight = 4
    assert batch(begun, 0) == ["drawn"]
    assert batch(begun, 0, ranked=True) == ["searched"], "earlier runs may have taught the model"


def test_a_task_whose_draws_are_all_invalid_is_searched() -> None:
    assert batch(search(), 0, drawn=()) == ["searched"]
