"""Rank correlation of what the cost model predicts and what is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tuning.engines.meta_schedule.rounds import ranking
from tuning.engines.meta_schedule.rounds.ranking import NOT_BUILT, Learn, learn, rank_correlation
from tuning.engines.meta_schedule.rounds.stopwatch import Stopwatch


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


class Model:
    """As TVM's XGBModel: it extracts features in order to predict, and again in order to learn."""

    booster, data_size, num_warmup_samples = object(), 40, 32

    def __init__(self) -> None:
        self.extractor: Any = self
        self.extracted = 0
        self.learned: list[Any] = []

    def extract_from(self, _context: Any, candidates: list[Any]) -> list[Any]:
        self.extracted += 1
        return list(candidates)

    def predict(self, context: Any, candidates: list[Any]) -> list[float]:
        return [1.0 / feature for feature in self.extractor.extract_from(context, candidates)]

    def update(self, context: Any, candidates: list[Any], results: list[Any]) -> None:
        assert len(candidates) == len(results)
        self.learned += self.extractor.extract_from(context, candidates)


def test_it_judges_what_was_measured_and_extracts_features_once() -> None:
    told: list[Any] = []
    trials = SimpleNamespace(
        stopwatch=Stopwatch(lambda _: None, lambda: 0.0, 0.0), report_ranking=lambda *it: told.append(it)
    )
    search: Any = SimpleNamespace(trials=trials, task_by_name={"matmul": 3})
    results = [SimpleNamespace(run_secs=secs) for secs in ([1e-3], [2e-3, 4e-3], None, [4e-3], [5e-3])]
    model, context = Model(), SimpleNamespace(task_name="matmul")
    learn(search, model, context, [1, 2, 3, 4, 5], results)
    assert told == [(3, 1.0, [1.0, 0.5, 0.25, 0.2], [1e-3, 3e-3, 4e-3, 5e-3])]
    assert (model.learned, model.extracted) == ([1, 2, 3, 4, 5], 1)
    assert model.extractor is model
    learn(search, model, context, [1, 2, 3], results[:3])
    assert len(told) == 1, "two measured candidates have no order to speak of"
    assert model.learned[5:] == [1, 2, 3]


@pytest.mark.tvm
def test_it_learns_from_what_was_built_wherever_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[Any] = []
    monkeypatch.setattr(ranking, "learn", lambda *given: learned.append(given[3:]))
    builds = [SimpleNamespace(error_msg=text) for text in (None, "no such intrinsic", None, None)]
    texts = (None, None, f"{NOT_BUILT}no such intrinsic", "the run process was killed")
    results = [SimpleNamespace(error_msg=text) for text in texts]
    scheduler = SimpleNamespace(tasks_=[SimpleNamespace(ctx=None)])
    search: Any = None
    Learn(search, None)._inst.apply(scheduler, 0, "abcd", builds, results)
    assert learned == [(["a", "d"], [results[0], results[3]])]
