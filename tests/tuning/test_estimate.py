"""The sum of best latency × weight."""

from __future__ import annotations

import pytest

from tuning.estimate import RunningEstimate, total, weighted


@pytest.mark.parametrize(
    ("latencies", "seconds"), [([], None), ([1.0, None], None), ([None], None), ([1.0, 2.0], 7.0), ([0.0, 0.0], 0.0)]
)
def test_it_is_known_once_every_task_is_measured(latencies: list[float | None], seconds: float | None) -> None:
    assert total(weighted(latency, weight) for latency, weight in zip(latencies, (3, 2), strict=False)) == seconds


def test_it_follows_each_improvement() -> None:
    running = RunningEstimate({10: 3, 20: 2})
    improvements = [(10, 2.0), (30, 9.0), (20, 5.0), (10, 1.0)]
    assert [running.improve(task, latency_s) for task, latency_s in improvements] == [None, None, 16.0, 13.0]
