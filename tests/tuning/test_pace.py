"""In which rounds a run goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.models import Run


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ({"options": {"trials_per_batch": 16}, "trials_budget": 320}, 16),
        ({"options": {"trials_per_batch": 16}, "trials_budget": 144, "tasks_chosen": 18}, 16),
        ({"options": {"trials_per_batch": 64}, "trials_budget": 320, "tasks_chosen": 18}, 64),
        ({"options": {}, "engine": "auto_scheduler", "trials_budget": 320, "tasks_chosen": 18}, 17),
        ({"options": {}, "trials_budget": 1000}, 64),
        ({"options": {"trials_per_batch": "many"}, "trials_budget": 1000}, 64),
        ({"options": {"trials_per_batch": 16}, "trials_budget": 2000, "machines_wanted": 4}, 64),
        ({"options": {"trials_per_batch": 16}, "trials_budget": 300, "machines_wanted": 0}, 30),
        ({"options": {"trials_per_batch": 16}, "trials_budget": 3, "tasks_chosen": 18}, 3),
    ],
)
def test_a_round_holds_a_search(values: dict[str, Any], size: int) -> None:
    assert Run(**values).pace.round_size == size


@pytest.mark.parametrize(
    ("values", "trials"),
    [
        ({}, 36),
        ({"trials_budget": 144}, 18),
        ({"trials_budget": 3}, 3),
        ({"options": {"trials_per_batch": 16, "first_trials": 8}}, 144),
        ({"options": {"trials_per_batch": 16, "first_trials": 16}}, 0),
        ({"tasks_chosen": 1}, 0),
        ({"tasks_spare": 6}, 12 * 2 + 6 * 8),
        ({"tasks_spare": 6, "trials_budget": 640}, 12 * 4 + 6 * 8),
        ({"trials_budget": None}, 0),
        ({"origin": "streamed"}, 0),
        ({"engine": "auto_scheduler"}, 0),
    ],
)
def test_smaller_rounds_come_first(values: dict[str, Any], trials: int) -> None:
    given = {"options": {"trials_per_batch": 16}, "trials_budget": 320, "tasks_chosen": 18, **values}
    assert Run(**given).pace.first_pass == trials
