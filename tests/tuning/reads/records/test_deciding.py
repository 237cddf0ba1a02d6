"""What the trials of a task decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.world import claimed, make_run, make_tasks, record_trials, workload_text
from tuning.logs.meta_schedule import LOST, RECORDS, WORKLOADS
from tuning.models import Run, Task
from tuning.reads.records import Missing, decided, deciding
from tuning.work.synthetic import seed_run

pytestmark = pytest.mark.django_db
FACTORS = (1, 2, 4, 8)


def trace(factor: int, *more: Any) -> str:
    instructions = [
        ["GetSBlock", [], ["matmul", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1"]],
        ["SamplePerfectTile", ["l1"], [2, 64], ["v2", "v3"]],
        *more,
    ]
    return json.dumps([0, [[instructions, [[2, [8 // factor, factor]]]], [1e-3], {"kind": "llvm"}, []]])


def tuned(traces: list[str]) -> Task:
    """A task whose trials are as slow as their factor, and have these records."""
    run = claimed(make_run())
    make_tasks(run, 1)
    record_trials(run, [(0, 1e-3 * FACTORS[number % 4]) for number in range(len(traces))])
    run.work_dir.mkdir(parents=True)
    (run.work_dir / WORKLOADS).write_text(workload_text(0) + "\n")
    (run.work_dir / RECORDS).write_text("".join(f"{one}\n" for one in traces))
    return Run.objects.get(pk=run.pk).tasks.get()


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path


def test_it_reads_all_valid_trials_and_what_matters() -> None:
    task = tuned([trace(FACTORS[number % 4]) for number in range(40)])
    record_trials(task.run, [(0, None)])
    with (task.run.work_dir / RECORDS).open("a") as file:
        file.write(trace(1) + "\n")
    found = decided(Task.objects.select_related("run").get(pk=task.pk))
    (space,) = found.spaces
    name = ("tiling of loop 1 of matmul", "factor 2 of 2, innermost")
    assert [(one.number, one.values[name]) for one in space.trials[:4]] == [(1, 1), (2, 2), (3, 4), (4, 8)]
    assert (len(space.trials), found.step, found.unread) == (40, 1, 0)
    assert space.importance
    ((first, share),) = space.importance.shares
    assert first == name
    assert share == pytest.approx(1.0)


def test_design_spaces_are_apart_and_lost_records_are_counted() -> None:
    other = ["Unroll", ["l1"], [], []]
    found = decided(tuned([trace(1), trace(2, other), trace(4, other), LOST, "{torn"]))
    assert [[one.number for one in space.trials] for space in found.spaces] == [[2, 3], [1]]
    assert found.unread == 2
    assert found.spaces[0].importance is None


def test_many_trials_are_thinned_and_improvements_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "MOST_TRIALS", 10)
    found = decided(tuned([trace(FACTORS[number % 4]) for number in range(40)]))
    assert found.step == 4
    assert [one.number for one in found.spaces[0].trials] == [1, *range(4, 41, 4)]


def test_a_growing_run_is_read_again() -> None:
    task = tuned([trace(1)] * 4)
    assert len(decided(task).spaces[0].trials) == 4
    record_trials(task.run, [(0, 1e-3)])
    with (task.run.work_dir / RECORDS).open("a") as file:
        file.write(trace(1) + "\n")
    assert len(decided(Task.objects.select_related("run").get(pk=task.pk)).spaces[0].trials) == 5


def test_it_says_why_there_is_nothing() -> None:
    task = tuned([trace(1)])
    (task.run.work_dir / RECORDS).unlink()
    with pytest.raises(Missing, match="isn’t here anymore"):
        decided(task)
    with pytest.raises(Missing, match="synthetic"):
        decided(seed_run(10, 1).tasks.select_related("run").get())
