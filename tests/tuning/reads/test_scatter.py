"""The scatter of a window: thinned without losing improvements and rare failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.world import make_machine, make_run, measured_run, record_trials
from tuning.models import Run
from tuning.reads import scatter as scattering
from tuning.reads.scatter import Window, scatter
from tuning.validation import Invalid
from tuning.work.synthetic import seed_run

pytestmark = pytest.mark.django_db

on_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL reads small tables whole, whatever the indexes"
)
LATENCIES = [(number % 2, None if number % 11 == 0 else (number % 7 + 1) * 1e-3) for number in range(1, 65)]
WINDOWS = [
    Window(),
    Window(first=20, last=40),
    Window(first=60, last=1000),
    Window(first=65),
    Window(min=3e-3),
    Window(max=3e-3),
    Window(first=10, last=50, min=2e-3, max=4e-3),
    Window(tasks=(1,)),
    Window(tasks=(0, 1), max=2e-3),
    Window(first=30, tasks=(0,), min=5e-3),
    Window(min=1.0),
    Window(failed=True),
    Window(failed=True, tasks=(1,)),
    Window(failed=True, first=10, last=40, min=3e-3),
    Window(failed=False),
    Window(failed=False, max=3e-3),
    Window(improved=True),
    Window(improved=True, tasks=(0,), min=2e-3),
    Window(improved=False, first=5),
    Window(noisy=True),
    Window(noisy=False, tasks=(1,)),
    Window(machine="lab-2"),
    Window(machine="lab-2", failed=False, max=3e-3),
    Window(machine="lab-2", max=3e-3),
]


def expected(run: Run, window: Window) -> list[int]:
    """The numbers of the window's trials, trial by trial."""
    rows = run.trials.order_by("number").select_related("task", "machine")
    last = 10**9 if window.last is None else window.last
    least, most = window.min or 0.0, 1e9 if window.max is None else window.max
    return [
        trial.number
        for trial in rows
        if window.first <= trial.number <= last
        and (trial.latency_s is None or least <= trial.latency_s <= most)
        and (not window.tasks or trial.task.index in window.tasks)
        and window.failed in (None, trial.latency_s is None)
        and window.improved in (None, trial.improved)
        and window.noisy in (None, trial.noisy)
        and (not window.machine or (trial.machine is not None and trial.machine.name == window.machine))
    ]


@pytest.fixture(params=["by number", "by another index", "by grid"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as a narrow window, a wide one with few trials, and a wide one with many."""
    if request.param != "by number":
        monkeypatch.setattr(scattering, "FEW", 0)
    if request.param == "by grid":
        monkeypatch.setattr(scattering, "MANY", 0)


@pytest.fixture
def among_others() -> Run:
    """A run in a database with another one."""
    measured_run([(0, 2e-3), (1, None)])
    Run.objects.update(status=Run.Status.FINISHED)
    return on_two_machines(measured_run(LATENCIES))


def on_two_machines(run: Run) -> Run:
    """The second measured every third trial, and every fifth of those that have a latency is noisy."""
    first, second = make_machine("lab-1"), make_machine("lab-2")
    run.measured_by.add(first, second)
    run.trials.update(machine=first)
    of_second, noisy = range(0, run.trials_done + 1, 3), range(0, run.trials_done + 1, 5)
    run.trials.filter(number__in=of_second).update(machine=second)
    run.trials.valid().filter(number__in=noisy).update(noisy=True)
    run.trials_noisy = run.trials.filter(noisy=True).count()
    run.save()
    return run


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_window_with_few_trials_has_all_of_them(among_others: Run, window: Window) -> None:
    shown = scatter(among_others, window)
    assert shown["number"] == expected(among_others, window)
    assert (shown["shown"], shown["total"], shown["exact"]) == (len(shown["number"]), len(shown["number"]), True)
    assert (shown["last"], shown["step"]) == (64, 1)


def test_its_columns_match_the_trials(among_others: Run) -> None:
    shown = scatter(among_others, Window(first=10, last=12))
    assert {name: shown[name] for name in ("task", "latency_s", "error", "at_s")} == {
        "task": [0, 1, 0],
        "latency_s": [4e-3, None, 6e-3],
        "error": [None, "run", None],
        "at_s": [10.0, 11.0, 12.0],
    }


def test_it_rounds_a_latency_to_five_digits() -> None:
    assert scatter(measured_run([(0, 1.23456789e-3)]), Window())["latency_s"] == [1.2346e-3]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("points", [16, 64, 500])
@pytest.mark.parametrize(
    "window",
    [
        Window(),
        Window(first=300, last=1700),
        Window(max=0.5),
        Window(tasks=(1, 2)),
        Window(failed=False),
        Window(noisy=False, tasks=(1, 2)),
        Window(machine="lab-1"),
    ],
    ids=str,
)
def test_it_thins_to_the_number_of_points(points: int, window: Window) -> None:
    run = on_two_machines(seed_run(2000, 3))
    if window.max is not None:  # Take it as a share: the limit is that quantile of the latencies.
        latencies = run.trials.valid().order_by("latency_s").values_list("latency_s", flat=True)
        window = Window(max=latencies[int(window.max * len(latencies))])
    shown = scatter(run, window, points)
    wanted = expected(run, window)
    assert 0 < len(shown["number"]) <= points < len(wanted)
    assert set(shown["number"]) <= set(wanted)
    assert shown["step"] > 1
    counted = window.max is None and not window.selective
    assert shown["total"] == len(wanted) if counted else not shown["exact"]
    assert shown["total"] == pytest.approx(len(wanted), rel=0.5)


@pytest.mark.usefixtures("way")
def test_it_estimates_the_total() -> None:
    run = measured_run([(0, (number % 7 + 1) * 1e-3) for number in range(1024)], trials_budget=1024)
    whole, some = (scatter(run, window, 64) for window in (Window(), Window(max=3e-3)))
    assert (whole["total"], whole["exact"]) == (1024, True)
    assert some["exact"] is False
    assert some["total"] == pytest.approx(1024 * 3 / 7, rel=0.25)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "close", [Window(first=400, last=900), Window(first=400, last=900, max=1e-2), Window(tasks=(0,))], ids=str
)
def test_zooming_in_keeps_the_visible_points(close: Window) -> None:
    run = seed_run(1500, 2)
    far, near = scatter(run, Window(), 100), scatter(run, close, 100)
    kept = {number for number in far["number"] if number % far["step"] == 0} & set(expected(run, close))
    valid = set(run.trials.valid().values_list("number", flat=True))
    assert kept & valid <= set(near["number"])
    assert near["step"] <= far["step"]


@pytest.mark.usefixtures("way")
def test_the_best_of_each_task_is_never_thinned_out() -> None:
    run = seed_run(2000, 3)
    bests = set(run.tasks.values_list("best_trial", flat=True))
    assert bests <= set(scatter(run, Window(), 64)["number"])
    assert bests <= set(scatter(run, Window(max=1.0), 64)["number"])


@pytest.mark.usefixtures("way")
def test_the_fastest_of_each_task_in_a_window_is_never_thinned_out() -> None:
    latencies = [(number % 2, 1e-3 if number < 2 else (number % 97 + 5) * 1e-3) for number in range(1000)]
    run = measured_run(latencies, trials_budget=1000)
    shown = scatter(run, Window(first=201, last=900), 32)
    for task in (0, 1):
        inside = run.trials.filter(task__index=task, number__range=(201, 900))
        fastest = inside.order_by("latency_s", "number").values_list("number", flat=True)[0]
        assert fastest in shown["number"]


@pytest.mark.parametrize("few", [0, 20_000])
@pytest.mark.parametrize(
    "window", [Window(), Window(first=301, last=999), Window(max=2e-3), Window(tasks=(1,))], ids=str
)
def test_rare_failed_trials_are_never_thinned_out(window: Window, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattering, "FEW", few)
    latencies = [(number % 2, None if number in (301, 607) else (number % 5 + 1) * 1e-3) for number in range(1000)]
    run = measured_run(latencies, trials_budget=1000)
    shown = scatter(run, window, 32)
    failed = [number for number, error in zip(shown["number"], shown["error"], strict=True) if error]
    assert failed == [302, 608]


def test_many_failed_trials_are_thinned_like_others() -> None:
    run = measured_run([(0, None if number % 3 else 1e-3) for number in range(1024)], trials_budget=1024)
    shown = scatter(run, Window(), 64)
    assert shown["error"].count("run") == pytest.approx(32 * 2 / 3, abs=2)


def test_it_ignores_trials_recorded_since() -> None:
    run = measured_run([(0, 4e-3)])
    record_trials(Run.objects.get(pk=run.pk), [(0, 1e-3)])
    shown = scatter(run, Window())
    assert (shown["number"], shown["last"], shown["total"]) == ([1], 1, 1)


def test_a_run_that_has_not_begun_is_empty() -> None:
    shown = scatter(make_run(), Window())
    assert (shown["number"], shown["total"], shown["exact"], shown["last"]) == ([], 0, True, 0)


@pytest.mark.parametrize(
    ("window", "field"),
    [(Window(first=5, last=4), "to"), (Window(min=2.0, max=1.0), "max"), (Window(tasks=(0, 2)), "task")],
)
def test_it_names_invalid_limits(window: Window, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        scatter(measured_run(LATENCIES), window)
    assert list(refused.value.fields) == [field]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_it_reads_in_few_queries(
    window: Window, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    monkeypatch.setattr(scattering, "FEW", 0)
    run = on_two_machines(seed_run(3000, 2))
    with django_assert_max_num_queries(16):
        scatter(run, window, 100)


def plans(run: Run, window: Window) -> str:
    """SQLite's query plans for a window."""
    with CaptureQueriesContext(connection) as asked:
        scatter(run, window, 100)
    with connection.cursor() as cursor:
        lines = []
        for query in asked.captured_queries:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            lines += [row[3] for row in cursor.fetchall()]
    return "\n".join(lines)


@on_sqlite
@pytest.mark.parametrize(
    ("window", "index"),
    [
        (Window(max=3e-3), "trial_failures (run_id=?"),
        (Window(), "trial_improvements (run_id=?"),
        (Window(first=500), "trial_latencies_of_task (task_id=?"),
        (Window(max=1e-3), "trial_latencies (run_id=? AND latency_s<?"),
        (Window(min=1e-4, max=1e-3, tasks=(1,)), "trial_latencies_of_task (task_id=? AND latency_s>? AND latency_s<?"),
        (Window(tasks=(1,)), "(task_id=? AND number>? AND number<?"),
        (Window(tasks=(1,)), "trial_failures_of_task (task_id=?"),
        (Window(failed=True), "trial_failures (run_id=?"),
        (Window(improved=True), "trial_bests (run_id=?"),
        (Window(noisy=True), "trial_noisy (run_id=?"),
    ],
)
def test_a_wide_window_reads_the_most_selective_index(
    window: Window, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scattering, "FEW", 0)
    latencies = [(number % 2, None if number == 99 else (number % 5 + 1) * 1e-3) for number in range(1000)]
    told = plans(measured_run(latencies, trials_budget=1000), window)
    assert index in told
    assert "SCAN tuning_trial" not in told


@on_sqlite
def test_a_narrow_window_reads_only_its_numbers() -> None:
    told = plans(seed_run(3000, 2), Window(first=500, last=2500, min=1e-5, max=1e-2))
    assert "(run_id=? AND number>? AND number<?)" in told
    assert "trial_latencies" not in told
