from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tuning.engines.running import Engine, latencies, lines, options, start
from tuning.engines.wire.protocol import Failed, Finished, NetworkSpec, TasksExtracted, TrialMeasured

pytestmark = pytest.mark.tvm
RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"


def test_no_trial_is_lost_or_doubled_by_kill_9(tmp_path: Path) -> None:
    work_dir, console, mlp = tmp_path / "work", tmp_path / "console", NetworkSpec("mlp")
    with Engine(start(work_dir, network=mlp, trials_budget=12), console) as first:
        first.until(TrialMeasured, nth=5)
        first.process.kill()
        first.to_the_end()
    for name in (RECORDS, WORKLOADS):
        with (work_dir / name).open("a") as file:
            file.write('[0,[[[["GetSBl')  # As if killed in the middle of a line.
    heard = [trial.latency_s for trial in first.trials]

    # The supervisor recorded 3 trials before it died too.
    again = start(work_dir, network=mlp, trials_budget=12, trials_done=3, elapsed_s=60.0)
    with Engine(again, console) as second:
        assert second.to_the_end() == Finished("budget")
    recovered = [trial for trial in second.trials if trial.recovered]
    assert [trial.latency_s for trial in recovered[:2]] == heard[3:5]
    assert all(trial.at_s == 60.0 for trial in recovered)
    kept = [json.loads(trial.record)[1][1] for trial in recovered if trial.record]
    assert kept == [[trial.latency_s] for trial in recovered if trial.latency_s and not trial.short], "with its record"
    assert all((trial.at_s or 0.0) > 60.0 and not trial.recovered for trial in second.trials[len(recovered) :])
    assert heard[:3] + [trial.latency_s for trial in second.trials] == pytest.approx(latencies(work_dir), rel=1e-12)
    assert 3 + len(second.trials) == 12
    assert "dropped an incomplete last line" in console.read_text()
    tasks = [event.tasks for engine in (first, second) for event in engine.seen if isinstance(event, TasksExtracted)]
    assert tasks[0] == tasks[1]
    with Engine(start(work_dir, network=mlp, trials_budget=12, trials_done=11), console) as third:
        assert third.to_the_end() == Finished("budget")
    assert [trial.latency_s for trial in third.trials] == [second.trials[-1].latency_s], (
        "all that is left is to report it"
    )
    traces = [str(trace) for _, (trace, *_) in lines(work_dir)]
    assert len(set(traces)) > 10, "a resumed run doesn't draw the same candidates again"


def test_every_task_gets_its_turn_however_often_the_run_is_resumed(tmp_path: Path) -> None:
    given = {"network": NetworkSpec("mlp"), "options": options(trials_per_batch=2)}
    tried: list[int] = []
    for done in (0, 1):
        again = start(tmp_path / "work", trials_budget=done + 1, trials_done=done, **given)
        with Engine(again, tmp_path / "console") as engine:
            assert engine.to_the_end() == Finished("budget")
        tried += [trial.task for trial in engine.trials]
    assert tried == [0, 1]


@pytest.mark.filterwarnings("default")  # Warnings are TVM's own.
def test_trial_numbers_stay_aligned_when_the_file_lost_records(tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    with Engine(start(work_dir, trials_budget=4), tmp_path / "console") as first:
        first.to_the_end()
    whole = (work_dir / RECORDS).read_text().splitlines(keepends=True)
    (work_dir / RECORDS).write_text("".join(whole[:2]))
    with Engine(start(work_dir, trials_budget=6, trials_done=4), tmp_path / "console") as second:
        assert second.to_the_end() == Finished("budget")
    written = latencies(work_dir)
    assert len(written) == 6
    assert written[2:4] == [None, None]
    assert [trial.latency_s for trial in second.trials] == pytest.approx(written[4:], rel=1e-12)

    from tvm.s_tir.meta_schedule.database import JSONDatabase

    database = JSONDatabase(work_dir=str(work_dir))
    (record, *_) = database.get_all_tuning_records()
    assert len(database) == 6, "TVM reads the lines that stand for lost records"
    assert len(database.get_top_k(record.workload, 9)) == 4, "and ignores them as invalid"


def test_it_refuses_the_records_of_another_network(tmp_path: Path) -> None:
    with Engine(start(tmp_path / "work", trials_budget=1), tmp_path / "console") as first:
        first.to_the_end()
    other = start(tmp_path / "work", network=NetworkSpec("mlp"), trials_done=1)
    with Engine(other, tmp_path / "console") as second:
        failed = second.to_the_end()
        assert second.process.returncode == 1
    assert isinstance(failed, Failed)
    assert "holds a function that isn't one of this run's tasks" in failed.error
