from __future__ import annotations

import pytest

from tuning.engines.wire.protocol import Finished, KnownRecord, Plateaued, WarmStart, WarmStarted, encode

from .legacy_running import TWO, Legacy

pytestmark = pytest.mark.tvm
LEARNING: dict[str, dict[str, object]] = {
    "auto_scheduler": {"cost_model": "xgb", "tasks": [3]},
    "autotvm": {"tuner": "xgb", "tasks": [4], "plan_size": 4, "feature_type": "knob"},
}


@pytest.mark.parametrize("legacy", [pytest.param("autotvm", marks=pytest.mark.rare), "auto_scheduler"], indirect=True)
def test_it_learns_from_its_trials(legacy: Legacy) -> None:
    with legacy.run(legacy.start(LEARNING[legacy.engine], trials_budget=6)) as engine:
        assert engine.to_the_end() == Finished("budget")
    assert len(set(legacy.candidates())) == 6
    assert "Traceback" not in legacy.console()


@pytest.mark.rare
def test_a_warm_start_measures_the_best_known_record_again(legacy: Legacy) -> None:
    with legacy.run(legacy.start()) as earlier:
        earlier.to_the_end()
    best = min((trial for trial in earlier.trials if trial.task == TWO[0]), key=lambda trial: trial.latency_s or 1.0)
    known = [KnownRecord(TWO[0], 7, str(best.record)), KnownRecord(TWO[0], 7, '{"of": "another version"}')]
    tried = legacy.candidates()
    legacy.records.unlink()

    with legacy.run(legacy.start({"seed": 2}, expect_warm_start=True)) as engine:
        engine.write(encode(WarmStart(known)))
        assert engine.until(WarmStarted) == WarmStarted(tasks=[TWO[0]], runs=[7])
        assert engine.to_the_end() == Finished("budget")
    again, *_ = legacy.candidates()
    assert again in tried
    assert engine.trials[0].task == TWO[0]
    assert len(set(legacy.candidates())) == 4, "and then only others"
    assert "Ignored a record" in legacy.console()


@pytest.mark.rare
def test_a_task_without_improvement_stops_early(autotvm: Legacy) -> None:
    options = {"tuner": "gridsearch", "early_stopping": 2, "number": 1, "min_repeat_ms": 0}
    with autotvm.run(autotvm.start(options, trials_budget=200)) as engine:
        assert engine.to_the_end() == Finished("plateau")
    assert {event.task for event in engine.seen if isinstance(event, Plateaued)} == set(TWO)
    assert len(engine.trials) < 200


@pytest.mark.rare
def test_the_console_says_why_nothing_was_transferred(autotvm: Legacy) -> None:
    """Tasks 2 and 4 have one template, task 1 has another."""
    options = {**LEARNING["autotvm"], "tasks": [1, 2, 4], "transfer": True}
    with autotvm.run(autotvm.start(options, trials_budget=3)) as engine:
        assert engine.to_the_end() == Finished("budget")
    assert "couldn't learn (TVM asks for 500) from 0 records of earlier runs and 1 of other tasks" in autotvm.console()
