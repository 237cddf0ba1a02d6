"""What is told of the cost model's accuracy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import measured_run
from tuning.engines.wire.protocol import Ranked
from tuning.models import Run
from tuning.reads.course.rankings import accuracy, latest_mean, sentence
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


def ranked_run(*correlations: float | None, **values: Any) -> Run:
    run = measured_run(**values)
    events = [
        Ranked(0, number + 1, number + 1.0, correlation, [0.5] * 4, [1e-3] * 4)
        for number, correlation in enumerate(correlations)
    ]
    Recorder(run).record(events)
    return run


@pytest.mark.parametrize(
    ("correlations", "says"),
    [
        ([0.7, 0.9, 0.8], "well: 0.80 on average over the last 3 rounds"),
        ([0.2, 0.3, None, 0.4], "better than chance: 0.30 on average over the last 3 rounds"),
        ([0.1, -0.2, 0.01], "no better than chance: −0.03"),
        ([0.9, 0.9], "couldn’t be judged often enough yet"),
        ([], "couldn’t be judged often enough yet"),
    ],
)
def test_a_sentence_says_what_the_correlations_mean(correlations: list[float | None], says: str) -> None:
    run = ranked_run(*correlations, options={"cost_model": "xgb"})
    assert says in sentence(run)


def test_only_the_latest_count() -> None:
    found = latest_mean(ranked_run(*[0.0] * 5, *[0.5] * 10))
    assert found is not None
    assert found[0] == pytest.approx(0.5)
    assert found[1] == 10


@pytest.mark.parametrize("model", ["random", "none", None])
def test_a_model_that_doesnt_learn_isnt_judged(model: str | None) -> None:
    assert sentence(measured_run(options={"cost_model": model})) == "The run has no cost model that learns."


def test_points_are_those_that_could_be_told() -> None:
    found = accuracy(ranked_run(0.5, None, 0.25))
    assert [(point.done, point.at_s, point.correlation) for point in found] == [(1, 1.0, 0.5), (3, 3.0, 0.25)]
