from __future__ import annotations

from typing import Any

import pytest

from tests.tuning.engines.running import Engine
from tuning.engines.wire.protocol import Failed, Finished, TasksExtracted, TrialMeasured

from .legacy_running import EVERYDAY, Legacy

pytestmark = pytest.mark.tvm


def _tasks(engine: Engine) -> list[object]:
    return [event.tasks for event in engine.seen if isinstance(event, TasksExtracted)]


@pytest.mark.rare
def test_no_trial_is_lost_or_doubled_by_kill_9(legacy: Legacy) -> None:
    with legacy.run(legacy.start(trials_budget=6)) as first:
        first.until(TrialMeasured, nth=3)
        first.process.kill()
        first.to_the_end()
    with legacy.records.open("a") as file:
        file.write('{"i": [["[\\"7c79')  # As if killed in the middle of a line.
    heard = [trial.latency_s for trial in first.trials]

    # The supervisor recorded 1 trial before it died too.
    with legacy.run(legacy.start(trials_budget=6, trials_done=1, elapsed_s=60.0)) as second:
        assert second.to_the_end() == Finished("budget")
    recovered = [trial for trial in second.trials if trial.recovered]
    assert [trial.latency_s for trial in recovered[:2]] == pytest.approx(heard[1:3], rel=1e-4)
    assert all(trial.at_s == 60.0 for trial in recovered)
    assert all((trial.at_s or 0.0) > 60.0 for trial in second.trials if not trial.recovered)
    assert 1 + len(second.trials) == len(legacy.lines()) == 6
    told = [heard[0], *(trial.latency_s for trial in second.trials)]
    assert told == pytest.approx(legacy.latencies(), rel=1e-4)
    assert "dropped an incomplete last line" in legacy.console()
    assert _tasks(first) == _tasks(second)
    assert len(set(legacy.candidates())) == 6, "a resumed run doesn't try a candidate again"


@pytest.mark.rare
@pytest.mark.parametrize(
    ("tuner", "budget", "reason"),
    [
        ("ga", 12, "budget"),
        ("gridsearch", 100, "exhausted"),
        ("xgb", 20, "budget"),
    ],
)
def test_no_tuner_tries_a_candidate_twice(tuner: str, budget: int, reason: Any, autotvm: Legacy) -> None:
    """Not even when it is resumed. The task's space has 28 candidates."""
    options = {"tuner": tuner, "tasks": [4], "ga_population": 4, "number": 1, "min_repeat_ms": 0}
    with autotvm.run(autotvm.start(options, trials_budget=5)) as first:
        assert first.to_the_end() == Finished("budget")
    with autotvm.run(autotvm.start(options, trials_budget=budget, trials_done=5)) as second:
        assert second.to_the_end() == Finished(reason)
    tried = min(budget, 28)
    assert len(set(autotvm.candidates())) == len(autotvm.candidates()) == tried
    assert f"{tried} of 28 candidates tried" in autotvm.console()


@EVERYDAY
def test_trial_numbers_stay_aligned_when_the_file_lost_records(legacy: Legacy) -> None:
    with legacy.run(legacy.start(trials_budget=2)) as first:
        first.to_the_end()
    whole = legacy.records.read_text().splitlines(keepends=True)
    legacy.records.write_text(whole[0])
    with legacy.run(legacy.start(trials_budget=3, trials_done=2)) as second:
        assert second.to_the_end() == Finished("budget")
    kept, lost, new = legacy.records.read_text().splitlines()
    assert (kept, lost) == (whole[0].strip(), "# lost")
    assert [trial.record for trial in second.trials] == [new]


def test_it_refuses_the_records_of_another_network(legacy: Legacy) -> None:
    legacy.work_dir.mkdir()
    foreign = (
        '{"i": [["[\\"matmul\\", 8]", "llvm"], [[], []]], "r": [[0.1], 0, 1, 1], "v": "v0.6"}'
        if legacy.engine == "auto_scheduler"
        else '{"input": ["llvm", "matmul", [], {}], "config": {}, "result": [[0.1], 0, 1, 1], "version": 0.2}'
    )
    legacy.records.write_text(foreign + "\n")
    with legacy.run(legacy.start(trials_done=1)) as engine:
        failed = engine.to_the_end()
        assert engine.process.returncode == 1
    assert isinstance(failed, Failed)
    assert "line 1, is of a task that isn't one of this run's" in failed.error
