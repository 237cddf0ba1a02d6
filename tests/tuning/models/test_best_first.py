"""Which record of a task is its best: the confirmed one, whatever a single measurement of another was."""

from __future__ import annotations

import pytest

from tests.world import claimed, make_run, make_tasks, measured_run, record_trials
from tuning.engines.wire.protocol import Confirmed
from tuning.models import Compilation, Record, Run, Task
from tuning.reads.downloads.records import best
from tuning.reads.library import LibraryFilter, known_records, workload
from tuning.work.best_records import best_records
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


def confirmed_run() -> Run:
    """Of its first task, trial 1 was lucky, and trial 4 has lost unheard."""
    run = measured_run([(0, 1.0e-3), (0, 1.1e-3), (1, 3e-3), (0, 1.15e-3)])
    Recorder(run).record([Confirmed(0, [1, 2], [[1.4e-3] * 5, [1.2e-3] * 5])])
    run.move("running", to="finished")
    run.refresh_from_db()
    return run


def test_the_confirmed_record_is_the_best_and_promises_its_confirmed_latency() -> None:
    run = confirmed_run()
    ranked = Record.objects.filter(task__run=run, task__index=0).best_first()
    assert [(one.trial, one.promised_s) for one in ranked] == [(2, 1.2e-3), (1, 1.2e-3), (4, 1.2e-3)]
    task = run.tasks.get(index=0)
    assert task.promised == (2, 1.2e-3)
    assert run.tasks.get(index=1).promised == (3, 3e-3)
    assert [entry.trial for entry in best([task], 2)] == [2, 1]
    used, estimate_s = best_records(run, Compilation.Source.RUN)
    assert {(one.trial, one.latency_s) for one in used} == {(2, 1.2e-3), (3, 3e-3)}
    assert estimate_s == pytest.approx(1.2e-3 + 2 * 3e-3)


def test_of_several_runs_the_one_that_promises_least_is_the_best() -> None:
    run = confirmed_run()
    other = claimed(make_run())
    make_tasks(other)
    record_trials(other, [(0, 1.19e-3), (1, 3.1e-3)])
    shash = run.tasks.get(index=0).workload_hash
    found = known_records([shash], run.target, run.project_id, most=4)[shash]
    assert [(one.run, one.trial, one.latency_s) for one in found] == [
        (other.pk, 1, 1.19e-3),
        (run.pk, 2, 1.2e-3),
        (run.pk, 1, 1.2e-3),
        (run.pk, 4, 1.2e-3),
    ]
    (entry, *_) = (one for one in LibraryFilter(None).entries(0, 10) if one["workload_hash"] == shash)
    assert (entry["best"]["run"], entry["best"]["latency_s"], entry["best"]["confirmed"]) == (other.pk, 1.19e-3, False)
    assert entry["slowest_latency_s"] == 1.2e-3
    shown = workload(None, shash)
    assert shown is not None
    measured = [(one["run"], one["trial"], one["confirmed"]) for one in shown["targets"][0]["measured"]]
    assert measured == [(other.pk, 1, False), (run.pk, 2, True)]
    assert Task.objects.best_known(None).get(workload_hash=shash).run == other
