"""Runs with the real engine and real TVM, from launch to end: nothing lost or counted twice, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import threading

import psutil
import pytest

from tests.family import descendants
from tests.threads import when
from tuning.actions import runs
from tuning.models import Run
from tuning.work.supervisor import supervise

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.tvm]
SMALL = {"network": "matmul", "network_options": {"n": 64}, "trials": 8, "trials_per_batch": 4, "min_repeat_ms": 10}


def launch() -> Run:
    return runs.launch(SMALL | {"seed": 1}, None, enqueue=False)


def tune(run: Run) -> Run:
    assert run.claim()
    supervise(run, threading.Event())
    run.refresh_from_db()
    return run


@pytest.mark.both_databases
def test_it_tunes_a_matmul() -> None:
    run = tune(launch())
    assert (run.status, run.error, run.trials_done, run.tasks_measured) == ("finished", None, 8, 1)
    task = run.tasks.get()
    assert (task.weight, task.flop) == (1, 2 * 64**3)
    assert task.args[-1]["shape"] == [64, 64]
    assert 'T.sblock("matmul")' in task.tensorir
    assert task.best_latency_s == min(t for t in run.trials.values_list("latency_s", flat=True) if t is not None)
    assert run.estimated_latency_s == task.best_latency_s
    assert run.target["kind"] == "llvm"
    assert run.target["mcpu"]
    assert run.versions["apache-tvm"]
    best = task.records.first()
    assert best is not None
    assert (best.latency_s, best.trial) == (task.best_latency_s, task.best_trial)
    assert len(records_of(run)) == 8


def test_a_second_run_starts_from_the_records_of_the_first_and_can_be_extended() -> None:
    first, second = tune(launch()), tune(launch())
    assert second.warm_start == {"tasks": [0], "runs": [first.pk]}
    assert (second.trials_done, len(records_of(second))) == (8, 8), (
        "the records that it started from aren't trials of its own"
    )
    best = first.tasks.get().records.best_first().first()
    assert best is not None
    assert trace_of(records_of(second)[0]) == trace_of(best.text), "its first trial is the first run's best"
    runs.extend(second, {"trials": 2})
    assert tune(second).status == "finished"
    assert (second.trials_done, len(records_of(second)), second.finish_reason) == (10, 10, "budget")
    off = tune(runs.launch(SMALL | {"warm_start": False, "trials": 1}, None, enqueue=False))
    assert off.warm_start is None


def trace_of(record: str) -> str:
    return json.dumps(json.loads(record)[1][0])


@pytest.mark.both_databases
def test_a_killed_engine_leaves_nothing_behind_and_resumes_to_exactly_its_budget() -> None:
    run = launch()
    killer = when(Run.objects.filter(trials_done__gte=2).exists, kill_engines)
    run = tune(run)
    killer.join(60)
    assert run.status == "failed"
    assert "SIGKILL" in str(run.error)
    assert 2 <= run.trials_done < 8
    assert engines() == []
    before = list(run.trials.values_list("number", "latency_s"))

    runs.resume(run)
    run = tune(run)
    assert (run.status, run.trials_done) == ("finished", 8)
    assert list(run.trials.values_list("number", flat=True)) == list(range(1, 9))
    assert list(run.trials.values_list("number", "latency_s"))[: len(before)] == before
    assert list(run.tasks.values_list("trials", flat=True)) == [8]
    assert len(records_of(run)) == 8


def kill_engines() -> None:
    for process in engines():
        os.kill(process.pid, signal.SIGKILL)


def engines() -> list[psutil.Process]:
    return descendants("tuning.engines.meta_schedule")


def records_of(run: Run) -> list[str]:
    """Of all trials, the first one's first."""
    return (run.work_dir / "database_tuning_record.json").read_text().splitlines()
