from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.running import Engine, latencies, lines, options, start
from tuning.engines.protocol import Failed, Finished, NetworkSpec, TasksExtracted, TrialMeasured

pytestmark = pytest.mark.tvm
RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"


def test_it_goes_on_after_kill_9_with_nothing_lost_or_doubled(tmp_path: Path) -> None:
    work_dir, console, mlp = tmp_path / "work", tmp_path / "console", NetworkSpec("mlp")
    with Engine(start(work_dir, network=mlp, trials_budget=12), console) as first:
        first.until(TrialMeasured, nth=5)
        first.process.kill()
        first.to_the_end()
    for name in (RECORDS, WORKLOADS):
        with (work_dir / name).open("a") as file:
            file.write('[0,[[[["GetSBl')  # As a process leaves it that is killed while it writes.
    heard = [trial.latency_s for trial in first.trials]

    # The supervisor recorded 3 trials before it died too.
    again = start(work_dir, network=mlp, trials_budget=12, trials_done=3, elapsed_s=60.0)
    with Engine(again, console) as second:
        assert second.to_the_end() == Finished("budget")
    recovered = [trial for trial in second.trials if trial.recovered]
    assert [trial.latency_s for trial in recovered[:2]] == heard[3:5]
    assert all(trial.at_s == 60.0 for trial in recovered)
    assert all(trial.at_s > 60.0 and not trial.recovered for trial in second.trials[len(recovered) :])
    assert heard[:3] + [trial.latency_s for trial in second.trials] == pytest.approx(latencies(work_dir), rel=1e-12)
    assert 3 + len(second.trials) == 12
    assert "dropped a torn last line" in console.read_text()
    tasks = [event.tasks for engine in (first, second) for event in engine.seen if isinstance(event, TasksExtracted)]
    assert tasks[0] == tasks[1]
    traces = [str(trace) for _, (trace, *_) in lines(work_dir)]
    assert len(set(traces)) > 10, "a resumed run doesn't draw the same candidates again"


def test_it_gives_every_task_its_turn_however_often_it_is_resumed(tmp_path: Path) -> None:
    given = {"network": NetworkSpec("mlp"), "options": options(trials_per_batch=2)}
    tried: list[int] = []
    for done in (0, 2):
        again = start(tmp_path / "work", trials_budget=done + 2, trials_done=done, **given)
        with Engine(again, tmp_path / "console") as engine:
            assert engine.to_the_end() == Finished("budget")
        tried += [trial.task for trial in engine.trials]
    assert tried == [0, 0, 1, 1]


def test_it_keeps_numbers_aligned_when_the_file_lost_records(tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    with Engine(start(work_dir, trials_budget=4), tmp_path / "console") as first:
        first.to_the_end()
    whole = (work_dir / RECORDS).read_text().splitlines(keepends=True)
    (work_dir / RECORDS).write_text("".join(whole[:2]))
    for budget in (6, 8):  # The second round reads what the first put in place of the lost lines.
        with Engine(start(work_dir, trials_budget=budget, trials_done=budget - 2), tmp_path / "console") as engine:
            assert engine.to_the_end() == Finished("budget")
        assert [trial.latency_s for trial in engine.trials] == pytest.approx(latencies(work_dir)[-2:], rel=1e-12)
        assert len(lines(work_dir)) == budget
    assert latencies(work_dir)[2:4] == [None, None]


def test_it_has_nothing_to_do_when_the_budget_is_used_up(tmp_path: Path) -> None:
    with Engine(start(tmp_path / "work", trials_budget=4), tmp_path / "console") as first:
        first.to_the_end()
    with Engine(start(tmp_path / "work", trials_budget=4, trials_done=1), tmp_path / "console") as second:
        assert second.to_the_end() == Finished("budget")
    assert [trial.recovered for trial in second.trials] == [True] * 3
    assert len(lines(tmp_path / "work")) == 4


def test_it_refuses_the_records_of_another_network(tmp_path: Path) -> None:
    with Engine(start(tmp_path / "work", trials_budget=1), tmp_path / "console") as first:
        first.to_the_end()
    other = start(tmp_path / "work", network=NetworkSpec("mlp"), trials_done=1)
    with Engine(other, tmp_path / "console") as second:
        failed = second.to_the_end()
        assert second.process.returncode == 1
    assert isinstance(failed, Failed)
    assert "holds a function that is none of this run's tasks" in failed.error
