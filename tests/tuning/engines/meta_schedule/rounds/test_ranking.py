"""Rank correlation of what the cost model predicts and what is measured."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tuning.engines.meta_schedule.rounds.ranking import is_trained, rank_correlation


@pytest.mark.parametrize(
    ("one", "other", "correlation"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 1000], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),
        ([1, 1, 2, 3], [1, 2, 3, 4], 0.9486832980505138),
        ([1, 1, 1, 1], [1, 2, 3, 4], None),
    ],
)
def test_it_is_spearmans(one: list[float], other: list[float], correlation: float | None) -> None:
    found = rank_correlation(one, other)
    assert found == (None if correlation is None else pytest.approx(correlation))


def test_tvms_model_ranks_only_once_it_has_learned_enough() -> None:
    model = SimpleNamespace(booster=None, data_size=100, num_warmup_samples=32)
    assert not is_trained(model)
    model.booster = object()
    assert is_trained(model)
    model.data_size = 31
    assert not is_trained(model)
    assert not is_trained(SimpleNamespace()), "as a model that draws at random"
