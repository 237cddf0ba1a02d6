"""The record of any trial, or why there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.world import measured_run, record_trials, workload_text, write_record_files
from tuning.engines.wire.legacy import RECORDS as LOG
from tuning.logs.meta_schedule import FAILED_RUN_SECS, LOST, RECORDS, WORKLOADS
from tuning.models import Run, Task
from tuning.reads.records import Missing, NotOfTask, of_trial
from tuning.work.synthetic import seed_run

pytestmark = pytest.mark.django_db
SLOW, FAILED = 10, 11


@pytest.fixture
def task(settings: Any, tmp_path: Path) -> Task:
    """Its trials 1 to 8 are kept as the best; trial 12 is another task's."""
    settings.VAR = tmp_path
    run = measured_run([(1, 1e-3 + number * 1e-5) for number in range(SLOW)] + [(1, None), (0, 1e-3)])
    write_record_files(run)
    return run.tasks.get(index=1)


def test_a_kept_record_needs_no_file(task: Task) -> None:
    (task.run.work_dir / RECORDS).unlink()
    kept = of_trial(task, 1)
    assert kept.text == task.records.get(trial=1).text
    assert kept.latency_s == 1e-3
    assert kept.gflops == pytest.approx(2.0)


def test_a_slow_trial_has_its_record_with_its_workload(task: Task) -> None:
    record = of_trial(task, SLOW)
    workload, own = json.loads(record.text)
    assert workload == json.loads(workload_text(1))
    assert own[1] == [pytest.approx(1.09e-3)]
    assert record.latency_s == pytest.approx(1.09e-3)
    assert record.error_kind is None


def test_a_failed_trial_has_one_too(task: Task) -> None:
    record = of_trial(task, FAILED)
    assert json.loads(record.text)[1][1] == [FAILED_RUN_SECS]
    assert (record.latency_s, record.gflops, record.error_kind) == (None, None, "run")


def test_a_line_of_another_engines_log_is_its_record(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path
    run = measured_run([(0, 1e-3)] * 8 + [(0, 2e-3)], engine="autotvm")
    run.work_dir.mkdir(parents=True)
    (run.work_dir / LOG).write_text("".join(f'{{"line": {number}}}\r\n' for number in range(1, 10)))
    assert of_trial(run.tasks.get(index=0), 9).text == '{"line": 9}'


@pytest.mark.parametrize("number", [0, 12, 13, 2**40])
def test_a_trial_that_is_not_the_tasks_is_refused(task: Task, number: int) -> None:
    with pytest.raises(NotOfTask, match="is.’t of this task but of task 0" if number == 12 else "has no trial"):
        of_trial(task, number)


def test_it_says_that_the_file_is_gone(task: Task) -> None:
    (task.run.work_dir / RECORDS).unlink()
    with pytest.raises(Missing, match="isn’t here anymore"):
        of_trial(task, SLOW)


def test_it_says_that_a_record_was_lost(task: Task) -> None:
    path = task.run.work_dir / RECORDS
    lines = path.read_text().splitlines()
    lines[SLOW - 1] = LOST
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(Missing, match="record of trial 10 was lost"):
        of_trial(task, SLOW)


def test_it_says_that_the_file_ends_before(task: Task) -> None:
    record_trials(Run.objects.get(pk=task.run.pk), [(1, 5e-3)])
    with pytest.raises(Missing, match="ends before the record of trial 13"):
        of_trial(task, 13)


def test_it_says_that_there_is_no_such_workload(task: Task) -> None:
    (task.run.work_dir / WORKLOADS).write_text(workload_text(0) + "\n")
    with pytest.raises(Missing, match="file of workloads has no line 2"):
        of_trial(task, SLOW)


def test_a_log_may_have_come_without_workloads(task: Task) -> None:
    Run.objects.filter(pk=task.run.pk).update(origin=Run.Origin.IMPORTED)
    (task.run.work_dir / WORKLOADS).unlink()
    with pytest.raises(Missing, match="without its file of workloads"):
        of_trial(Task.objects.get(pk=task.pk), SLOW)


def test_a_synthetic_run_has_none() -> None:
    task = seed_run(20, 2).tasks.get(index=0)
    number = task.run.trials.filter(task=task).values_list("number", flat=True)[0]
    with pytest.raises(Missing, match="synthetic"):
        of_trial(task, number)
