"""Filter and sort trials, and which index that uses."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from tests.world import make_run, measured_by, measured_run, task_infos
from tuning.models import Run, Task, Trial, TrialRow, level_of_detail, trial
from tuning.reads import exploring
from tuning.reads.exploring import TrialFilter
from tuning.validation import Invalid

pytestmark = pytest.mark.django_db

on_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL reads small tables whole, whatever the indexes"
)
LATENCIES = [(0, 5e-3), (1, None), (0, 3e-3), (1, 4e-3), (0, 6e-3), (0, None), (1, 4.5e-3), (0, 1e-3)]


def numbers(run: Run, **wanted: Any) -> list[int]:
    asked = TrialFilter(**wanted)
    key = "-number" if asked.column.startswith("-") else "number"
    return list(exploring.trials(run, asked).order_by(asked.column, key).values_list("number", flat=True))


def task_fields(index: int) -> dict[str, Any]:
    return Task.described(task_infos(index + 1)[index])


def row(run: Run, task: Task, number: int) -> TrialRow:
    return TrialRow(run.pk, task.pk, number, 1, 1e-3, None, None, False, 1.0, level_of_detail(number), True)


@pytest.fixture(params=[True, False], ids=["few", "many"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Trials of two runs; read as if there were few in each range, and as if there were many."""
    if not request.param:
        monkeypatch.setattr(trial, "FEW", 0)
    measured_run([(0, 2e-3), (1, None)])
    Run.objects.update(status=Run.Status.FINISHED)
    return measured_run(LATENCIES)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"order": "-number"}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"after": 6}, [7, 8]),
        ({"task": 1}, [2, 4, 7]),
        ({"failed": True}, [2, 6]),
        ({"failed": True, "task": 0, "order": "-number"}, [6]),
        ({"failed": False}, [1, 3, 4, 5, 7, 8]),
        ({"improved": True}, [1, 3, 4, 8]),
        ({"improved": False}, [2, 5, 6, 7]),
        ({"improved": False, "failed": False}, [5, 7]),
        ({"order": "latency_s"}, [8, 3, 4, 7, 1, 5]),
        ({"order": "-latency_s", "task": 0}, [5, 1, 3, 8]),
        ({"order": "-latency_s", "improved": True}, [1, 4, 3, 8]),
        ({"min": 4e-3, "max": 5e-3}, [1, 4, 7]),
        ({"min": 4e-3, "order": "-number"}, [7, 5, 4, 1]),
        ({"max": 4e-3, "task": 1}, [4]),
        ({"max": 4e-3, "improved": True}, [3, 4, 8]),
        ({"min": 4e-3, "order": "latency_s", "after": 0}, [4, 7, 1, 5]),
        ({"min": 1.0}, []),
        ({"order": "task"}, [1, 3, 5, 6, 8, 2, 4, 7]),
        ({"order": "-task"}, [7, 4, 2, 8, 6, 5, 3, 1]),
        ({"order": "task", "task": 1}, [2, 4, 7]),
        ({"order": "-task", "task": 1}, [7, 4, 2]),
        ({"order": "task", "failed": True}, [6, 2]),
        ({"order": "task", "failed": False}, [1, 3, 5, 8, 4, 7]),
        ({"order": "task", "improved": True}, [1, 3, 8, 4]),
        ({"order": "task", "improved": False}, [5, 6, 2, 7]),
        ({"order": "task", "min": 4e-3}, [1, 5, 4, 7]),
        ({"order": "-task", "min": 4e-3, "max": 5e-3, "improved": False}, [7]),
        ({"order": "at_s"}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"order": "-at_s", "failed": True}, [6, 2]),
        ({"order": "at_s", "after": 6}, [7, 8]),
    ],
)
def test_all_conditions_must_hold(run: Run, wanted: dict[str, Any], found: list[int]) -> None:
    assert numbers(run, **wanted) == found


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"failed": True, "min": 1.0}, "failed"),
        ({"failed": True, "order": "latency_s"}, "failed"),
        ({"failed": True, "improved": True}, "improved"),
        ({"min": 2.0, "max": 1.0}, "max"),
        ({"after": 3, "order": "-latency_s"}, "after"),
        ({"after": 3, "order": "task"}, "after"),
        ({"task": 2}, "task"),
    ],
)
def test_it_names_the_invalid_condition(run: Run, wanted: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        exploring.trials(run, TrialFilter(**wanted))
    assert list(refused.value.fields) == [field]


@on_sqlite
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"order": "-latency_s"}, "trial_latencies "),
        ({"order": "latency_s", "task": 0}, "trial_latencies_of_task "),
        ({"order": "-latency_s", "improved": True}, "trial_improved_latencies "),
        ({"failed": True}, "trial_failures "),
        ({"failed": True, "task": 0}, "trial_failures_of_task "),
        ({"improved": True}, "trial_improvements "),
        ({"order": "task"}, "tuning_tria_task_id_"),
        ({"order": "-task", "failed": False, "min": 1e-3}, "tuning_tria_task_id_"),
        ({"order": "task", "failed": True}, "trial_failures_of_task "),
    ],
)
def test_it_reads_a_sorted_index(wanted: dict[str, Any], index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = TrialFilter(**wanted)
    key = "-number" if asked.order.startswith("-") else "number"
    monkeypatch.setattr(trial, "FEW", 0)
    plan = exploring.trials(measured_run(LATENCIES), asked).order_by(asked.column, key)[:50].explain()
    assert f"INDEX {index}" in plan
    assert "TEMP B-TREE FOR ORDER BY" not in plan


@on_sqlite
def test_a_range_with_many_trials_is_read_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    run, wanted = measured_run(LATENCIES), TrialFilter(min=1e-3)
    assert "trial_latencies" in exploring.trials(run, wanted).order_by("number").explain()
    monkeypatch.setattr(trial, "FEW", 0)
    assert "trial_latencies" not in exploring.trials(run, wanted).order_by("number").explain()


def test_a_run_without_tasks_has_no_trial_by_task() -> None:
    assert numbers(make_run(), order="task") == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"order": "-latency_s"}, [1, 4, 3]),
        ({"order": "task"}, [1, 3, 5, 2, 4]),
        ({"failed": True}, [2, 5]),
        ({"improved": True, "task": 1}, [4]),
        ({"min": 4e-3}, [1, 4]),
        ({"failed": False, "after": 1}, [3, 4]),
    ],
    ids=str,
)
def test_it_finds_the_trials_of_a_machine(run: Run, wanted: dict[str, Any], found: list[int]) -> None:
    Task.objects.filter(run=run, index=0).get().trial_set.filter(number=5).update(latency_s=None, error_kind="run")
    measured_by(run, "lab-1", number__lte=5)
    measured_by(run, "lab-2", number=6)
    assert numbers(run, machine="lab-1", **wanted) == found
    assert numbers(run, machine="lab-2") == [6]
    with pytest.raises(Invalid) as refused:
        numbers(run, machine="lab-3")
    assert refused.value.fields.keys() == {"machine"}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [3, 4, 8]),
        ({"order": "-latency_s"}, [4, 3, 8]),
        ({"order": "task"}, [3, 8, 4]),
        ({"improved": True, "min": 2e-3}, [3, 4]),
        ({"after": 3, "task": 0}, [8]),
        ({"noisy": False, "failed": False}, [1, 5, 7]),
    ],
    ids=str,
)
def test_it_finds_noisy_trials(run: Run, wanted: dict[str, Any], found: list[int]) -> None:
    run.trials.filter(number__in=(3, 4, 8)).update(noisy=True)
    run.trials_noisy = 3
    assert numbers(run, **({"noisy": True} | wanted)) == found


def test_the_order_by_task_ignores_other_runs() -> None:
    """The keys of the tasks of two runs interleave."""
    first, second = make_run(), make_run(device="elsewhere")
    for run in (first, second):
        assert run.claim()
    tasks = [(run, Task.objects.create(run=run, **task_fields(index))) for index in (0, 1) for run in (first, second)]
    for position, (run, task) in enumerate(tasks):
        Trial.objects.insert([row(run, task, number=1 + position // 2)])
    assert numbers(first, order="task") == [1, 2]
    assert numbers(second, order="-task") == [2, 1]
