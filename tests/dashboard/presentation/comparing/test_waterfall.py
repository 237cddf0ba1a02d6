"""The chart of where a difference comes from."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.presentation.comparing.view import View
from dashboard.presentation.comparing.waterfall import STEPS, waterfall
from tests.dashboard.presentation.comparing.test_concluding import tasks
from tests.tuning.reads.test_comparing import compared, measured
from tests.world import measured_beside
from tuning.models import Run

pytestmark = pytest.mark.django_db


def drawn(*runs: Run) -> Any:
    return waterfall(compared(*runs), View(tuple(run.pk for run in runs)))


def bars(figure: Any) -> dict[str, list[tuple[str, float, float]]]:
    """By trace, each bar's label, and where it begins and ends in milliseconds."""
    return {
        trace["name"]: [
            (label, round(base * 1e3, 6), round((base + height) * 1e3, 6))
            for label, base, height in zip(trace["x"], trace["base"], trace["y"], strict=True)
        ]
        for trace in figure["data"]
    }


def test_each_bar_begins_where_the_one_before_it_ends() -> None:
    assert bars(drawn(tasks((10, 10, 10)), tasks((4, 13, 9)))) == {
        "faster": [("1 fused_matmul1", 0, -6), ("3 fused_matmul3", -3, -4)],
        "slower": [("2 fused_matmul2", -6, -3), ("0 fused_matmul0", -4, -4)],
        "together": [("together", 0, -4)],
    }


def test_small_differences_share_a_bar() -> None:
    count = STEPS + 5
    figure = drawn(tasks([10] * count), tasks([10 - number * 0.1 for number in range(1, count + 1)]))
    faster = bars(figure)["faster"]
    assert faster[0][0] == str(count), "the largest comes first"
    assert [label for label, _, _ in faster[-2:]] == [str(6), f"{count + 1 - STEPS} others"]
    assert bars(figure)["together"][0][2] == faster[-1][2]


def test_side_by_side_it_leads_to_the_difference_of_the_sums() -> None:
    """They leave out a task that couldn't be measured of one of the runs, whichever that is."""
    runs = [tasks((10, 10)) for _ in range(3)]
    took = {(place, index): [1e-3 * (1 + 0.1 * place) * (3 - index)] * 5 for place in range(3) for index in range(3)}
    measured_beside(runs, {**took, (2, 1): []})
    comparison = compared(*runs)
    sums = [run["beside"] and run["beside"]["difference_s"] for run in comparison["runs"]]
    figure = waterfall(comparison, View(tuple(run.pk for run in runs)))
    assert [label for label, _, _ in bars(figure)["slower"]] == ["0 fused_matmul0", "2 fused_matmul2"]
    assert figure["data"][-1]["y"] == [pytest.approx(sums[1])]


def test_without_a_common_task_it_is_empty() -> None:
    figure = drawn(measured(), measured(((0, None), (1, None))))
    assert [trace["y"] for trace in figure["data"]] == [[], [], []]
