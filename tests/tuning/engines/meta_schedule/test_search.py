"""Which strategy finds a batch's candidates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tuning.engines.meta_schedule.search import Search, Strategy
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
    assert search().draws(0)
    assert search(done=WARMUP_TRIALS - 1).draws(1)
    assert not search(done=WARMUP_TRIALS).draws(1)
    assert not search(warm=(0,)).draws(1), "it is trained with the records of earlier runs"


def test_they_always_are_if_there_are_sketches_with_register_tiles() -> None:
    tiled = search(done=WARMUP_TRIALS)
    tiled.tiled = {0: True, 1: False}
    assert tiled.draws(0)
    assert tiled.draws(1), "its own are small enough to draw from, such as a pool's"


def test_a_tasks_second_batch_is_searched() -> None:
    begun = search()
    begun.trials.budget.progress[0].in_flight = 4
    assert (begun.draws(0), begun.draws(1)) == (False, True)
    begun.trials.budget.add_trial(0, None)
    begun.trials.budget.progress[0].in_flight = 0
    assert not begun.draws(0)


@pytest.mark.parametrize(("drawn", "measured"), [(["drawn"], ["drawn"]), ([], ["searched"])])
def test_a_task_whose_draws_are_all_invalid_is_searched(
    drawn: list[str], measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = search()
    monkeypatch.setattr(begun, "next_batch", lambda _task, generate: generate())
    inner: Any = SimpleNamespace(generate_measure_candidates=lambda: ["searched"])
    first: Any = SimpleNamespace(draw=lambda: drawn)
    strategy: Any = Strategy(inner, begun, first)
    # As TVM calls it, but with names in place of candidates.
    assert strategy._inst.generate_measure_candidates() == measured
