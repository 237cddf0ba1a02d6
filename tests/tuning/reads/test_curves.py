"""The curves of a run: exact improvements, thinned trials, and no estimate that wasn't measured."""

from __future__ import annotations

from itertools import pairwise

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from tests.world import claimed, make_run, make_tasks, measured_run, record_trials
from tuning.reads.curves import curves

pytestmark = pytest.mark.django_db
on_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL chooses by the number of rows, of which there are few here"
)


def test_it_has_every_improvement_of_every_task() -> None:
    run = measured_run([(0, 4e-3), (0, 5e-3), (1, 2e-3), (0, 3e-3), (1, None)])
    first, second = curves(run)["tasks"]
    assert first["best"] == {"number": [1, 4], "at_s": [1.0, 4.0], "latency_s": [4e-3, 3e-3]}
    assert second["best"] == {"number": [3], "at_s": [3.0], "latency_s": [2e-3]}
    assert second["scatter"]["number"] == [3]


def test_the_estimate_begins_when_every_task_is_measured() -> None:
    run = measured_run([(0, 4e-3), (0, 3e-3), (1, None), (1, 2e-3), (0, 1e-3)])
    assert curves(run)["estimate"] == {
        "number": [4, 5],
        "at_s": [4.0, 5.0],
        "latency_s": [pytest.approx(3e-3 + 2 * 2e-3), pytest.approx(1e-3 + 2 * 2e-3)],
    }


def test_there_is_no_estimate_while_a_task_has_no_valid_trial() -> None:
    assert curves(measured_run([(0, 4e-3), (1, None)]))["estimate"]["number"] == []


def test_it_counts_the_trials_that_each_task_got() -> None:
    run = measured_run([(0, 4e-3), (1, None), (0, None), (0, 3e-3)])
    assert curves(run)["tasks"][0]["allocation"] == {"number": [1, 3, 4], "at_s": [1.0, 3.0, 4.0], "trials": [1, 2, 3]}


@pytest.mark.parametrize("points", [1, 2, 7, 16, 33, 63, 64, 1000])
def test_it_spreads_as_many_points_as_requested(points: int) -> None:
    run = measured_run([(number % 2, 1.0 / number) for number in range(1, 65)])
    shown = curves(run, points=points)
    numbers = sorted(number for task in shown["tasks"] for number in task["allocation"]["number"])
    assert len(numbers) == min(points, 64)
    gaps = {later - earlier for earlier, later in pairwise(numbers)}
    assert max(gaps, default=0) <= 2 * min(gaps, default=0)
    assert sum(len(task["best"]["number"]) for task in shown["tasks"]) == 64


@on_sqlite
def test_it_reads_only_indices() -> None:
    run = measured_run([(0, 1.0)] * 64)
    columns = ("task_id", "number", "at_s", "latency_s", "nth")
    plan = run.trials.spread(64, 10).values_list(*columns).explain()
    assert "USING COVERING INDEX trial_levels (run_id=? AND lod>?)" in plan
    assert "USING COVERING INDEX trial_bests (" in run.trials.improvements().values_list(*columns).explain()


@on_sqlite
def test_it_reads_at_most_twice_as_many_trials_as_it_shows() -> None:
    run = measured_run([(0, 1.0)] * 512, trials_budget=512)
    steps: list[int] = []
    connection.ensure_connection()
    connection.connection.set_progress_handler(lambda: steps.append(1), 1)
    assert len(run.trials.spread(512, 10).values_list("number")) == 10
    connection.connection.set_progress_handler(None, 1)
    assert len(steps) < 512, "steps of SQLite's virtual machine; reading an index entry takes several"


def test_it_needs_few_queries_for_many_tasks(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    run = claimed(make_run())
    make_tasks(run, 20)
    record_trials(run, [(task, 1e-3) for task in range(20)])
    with django_assert_num_queries(3):
        assert len(curves(run)["tasks"]) == 20


def test_a_run_that_has_not_begun_is_empty() -> None:
    run = make_run()
    nothing: dict[str, list[float]] = {"number": [], "at_s": [], "latency_s": []}
    assert curves(run) == {"run": run.pk, "last": 0, "tasks": [], "estimate": nothing}


def test_it_ignores_trials_recorded_since() -> None:
    run = measured_run([(0, 4e-3)])
    record_trials(type(run).objects.get(pk=run.pk), [(0, 1e-3)])
    assert curves(run)["last"] == 1
    assert curves(run)["tasks"][0]["best"]["number"] == [1]
