from __future__ import annotations

from typing import Any

import pytest

from dashboard.presentation import charts
from tests.world import claimed, make_run, make_tasks, measured_run, record_trials, trial
from tuning.models import Run
from tuning.reads.curves import curves
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


def figures(run: Run) -> charts.RunFiguresDict:
    return charts.run_figures(run, curves(run))


def columns(trace: dict[str, Any]) -> tuple[list[int], list[float], list[float]]:
    return trace["x"], trace["customdata"], trace["y"]


def test_the_best_latency_extends_to_the_last_trial() -> None:
    first, second = figures(measured_run())["latency"]["data"]
    assert columns(first) == ([1, 3], [1.0, 3.0], [2e-3, 1e-3])
    assert columns(second) == ([2, 3], [2.0, 3.0], [3e-3, 3e-3])
    assert [first["meta"]["held"], second["meta"]["held"]] == [False, True]


def test_it_counts_the_trials_that_each_task_got() -> None:
    first, second = figures(measured_run())["allocation"]["data"]
    assert columns(first) == ([1, 3], [1.0, 3.0], [1, 2])
    assert columns(second) == ([2, 3], [2.0, 3.0], [1, 1])


def test_there_is_no_estimate_until_every_task_is_measured() -> None:
    (trace,) = figures(measured_run([(0, 2e-3), (1, None), (0, 1e-3)]))["estimate"]["data"]
    assert columns(trace) == ([], [], [])


def test_the_estimate_starts_when_every_task_is_measured() -> None:
    (trace,) = figures(measured_run([(0, 2e-3), (1, 3e-3), (0, 1e-3), (1, None)]))["estimate"]["data"]
    assert trace["x"] == [2, 3, 4]
    assert trace["y"] == pytest.approx([2e-3 + 2 * 3e-3, 1e-3 + 2 * 3e-3, 1e-3 + 2 * 3e-3])


def test_a_run_without_tasks_has_empty_figures() -> None:
    shown = figures(make_run())
    assert (shown["last"], shown["recent_at_s"], shown["weights"]) == (0, [], [])
    assert (shown["latency"]["data"], shown["allocation"]["data"]) == ([], [])


def test_a_task_without_trials_has_an_empty_trace() -> None:
    run = claimed(make_run())
    make_tasks(run, 3)
    record_trials(run, [(0, 1e-3)])
    assert [trace["x"] for trace in figures(run)["latency"]["data"]] == [[1], [], []]


def test_more_tasks_than_colors_can_be_told_apart() -> None:
    looks = {(charts.series(index), charts.dash(index)) for index in range(charts.SERIES * len(charts.DASHES))}
    assert len(looks) == charts.SERIES * len(charts.DASHES)


def test_allocation_curves_are_solid() -> None:
    run = claimed(make_run())
    make_tasks(run, charts.SERIES + 1)
    shown = figures(run)
    assert shown["latency"]["data"][-1]["meta"]["dash"] == charts.dash(charts.SERIES) != "solid"
    assert {trace["meta"]["dash"] for trace in shown["allocation"]["data"]} == {"solid"}


@pytest.mark.parametrize(("tasks", "foremost"), [(1, None), (charts.MANY, None), (charts.MANY + 1, charts.SERIES)])
def test_it_highlights_tasks_only_if_there_are_many(tasks: int, foremost: int | None) -> None:
    run = claimed(make_run())
    make_tasks(run, tasks)
    assert figures(run)["foremost"] == foremost


def test_a_live_run_has_a_speed() -> None:
    run = measured_run()
    assert charts.run_speed(run) == pytest.approx(1.0)
    run.status = Run.Status.FINISHED
    assert charts.run_speed(run) is None
    assert run.average_speed == pytest.approx(run.trials_done / (run.elapsed_s or 0.0))
    assert make_run().average_speed is None


def test_it_keeps_failed_trials_apart_from_measured_ones() -> None:
    run = measured_run([(0, 2e-3), (0, None), (0, 3e-3), (1, 1e-3)])
    trials, _, failed, _, best = task_traces(run, 0, (3, 4.0))
    assert (trials["x"], trials["y"]) == ([1, 3], [2e-3, 3e-3])
    assert failed["x"] == [2]
    assert columns(best) == ([1, 3], [1.0, 4.0], [2e-3, 2e-3])


def task_traces(run: Run, index: int, end: charts.Point) -> list[Any]:
    """The traces of a task's figure, of all its trials."""
    rows = run.trials.filter(task__index=index).order_by("number").values_list(*charts.TaskTrial._fields)
    return charts.task_figure(run.tasks.get(index=index), map(charts.TaskTrial._make, rows), end)["data"]


def test_a_task_counts_its_own_trials_and_names_those_of_the_run() -> None:
    run = measured_run([(0, 2e-3), (1, 5e-3), (0, 3e-3), (1, None), (1, 4e-3)])
    trials, _, failed, _, best = task_traces(run, 1, (3, 5.0))
    assert columns(trials) == ([1, 3], [2.0, 5.0], [5e-3, 4e-3])
    assert trials["text"] == ["<br>the run’s trial 2", "<br>the run’s trial 5"]
    assert (failed["x"], failed["text"]) == ([2], ["<br>the run’s trial 4"])
    assert columns(best) == ([1, 3], [2.0, 5.0], [5e-3, 4e-3])


def test_a_tasks_sessions_begin_at_its_own_trials() -> None:
    run = measured_run([(0, 2e-3), (1, 5e-3), (0, 3e-3), (1, 4e-3)])
    run.sessions = [{"trial": 1}, {"trial": 3}, {"trial": 4}, {"trial": 5}]
    for index, numbers in ((0, [2]), (1, [2, 2])):
        task = run.tasks.get(index=index)
        figure = charts.told(run, charts.task_figure(task, [], (0, None)), task)
        assert [one["number"] for one in figure["layout"]["meta"]["sessions"]] == numbers


def test_it_keeps_short_measurements_apart_from_full_ones() -> None:
    run = measured_run([(0, 2e-3)])
    Recorder(run).record([trial(0, 5e-3, short=True, at_s=2.0)])
    run.trials.filter(number=2).update(noisy=True)
    trials, short, failed, noisy, best = task_traces(run, 0, (2, 2.0))
    assert trials["text"] == ["<br>the run’s trial 1"]
    assert short["text"] == [f"<br>the run’s trial 2{charts.NOISE}"]
    assert columns(noisy) == ([2], [2.0], [5e-3])
    assert (trials["x"], short["x"], failed["x"]) == ([1], [2], [])
    assert short["y"] == [5e-3]
    assert short["marker"]["symbol"] == "circle-open"
    assert columns(best) == ([1, 2], [1.0, 2.0], [2e-3, 2e-3])


def test_the_scatter_starts_empty_and_tasks_of_one_color_have_different_symbols() -> None:
    run = claimed(make_run())
    tasks = make_tasks(run, charts.SERIES + 1)
    data = charts.scatter_figure(tasks)["data"]
    assert all(trace["x"] == trace["y"] == trace["customdata"] == [] for trace in data)
    assert data[0]["marker"]["symbol"] != data[charts.SERIES]["marker"]["symbol"]
    assert [trace.get("yaxis") for trace in data[-3:]] == ["y2", None, None]


def test_it_highlights_the_tasks_with_the_largest_share_of_the_estimate() -> None:
    run = claimed(make_run(trials_budget=100))
    tasks = make_tasks(run, charts.MANY + 1)
    assert charts.foremost(tasks[:-1]) is None
    record_trials(run, [(task.index, 1.0) for task in tasks])
    # A task's weight is its index plus one.
    assert charts.foremost(list(run.tasks.all())) == list(range(charts.MANY + 1 - charts.SERIES, charts.MANY + 1))
