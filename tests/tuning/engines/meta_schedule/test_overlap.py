from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.tuning.engines.running import Engine, latencies, options, start
from tuning.engines.wire.protocol import Event, Finished, NetworkSpec, Phase, Round, TrialMeasured

pytestmark = pytest.mark.tvm
MLP = NetworkSpec("mlp")


def searched_for_the_second_task_while_the_first_was_measured(events: list[Event]) -> bool:
    last_of_first = max(at for at, event in enumerate(events) if isinstance(event, TrialMeasured) and event.task == 0)
    return events.index(Phase("searching", 1)) < last_of_first


def test_it_can_search_and_build_while_it_measures(tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    slow = options(overlap="on", min_repeat_ms=500, trials_per_batch=3, first_trials=3)
    with Engine(start(work_dir, network=MLP, trials_budget=8, options=slow), tmp_path / "console") as engine:
        engine.until(TrialMeasured)
        process, own = psutil.Process(engine.process.pid), psutil.Process().nice()
        niceness = {one.nice() for one in (process, *process.children(recursive=True))}
        assert niceness == {own, min(19, own + 10)}, "search and builds yield to what measures"
        assert engine.to_the_end() == Finished("budget")
    assert searched_for_the_second_task_while_the_first_was_measured(engine.seen)
    assert [trial.latency_s for trial in engine.trials] == pytest.approx(latencies(work_dir), rel=1e-12)
    assert len(engine.trials) == 8, "candidates in flight count against the budget"
    rounds = [event for event in engine.seen if isinstance(event, Round) and event.task is not None]
    assert all(one.measure_s == 0 < one.beside_measure_s for one in rounds), "the device measures beside the search"
    assert all(one.beside_build_s > 0 for one in rounds), "and so do the cores build"
    assert sum(one.candidates for one in rounds) == 8


def test_it_searches_while_cores_have_nothing_to_build(tmp_path: Path) -> None:
    few = options(overlap="on", trials_per_batch=3, first_trials=3, build_workers=4)
    with Engine(start(tmp_path / "work", network=MLP, trials_budget=6, options=few), tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    first_trial = next(at for at, event in enumerate(engine.seen) if isinstance(event, TrialMeasured))
    assert engine.seen.index(Phase("building", 1)) < first_trial, "the second task is built with the first"


def test_on_a_cpu_it_measures_first_and_then_searches(tmp_path: Path) -> None:
    given = start(tmp_path / "work", network=MLP, trials_budget=6, options=options(trials_per_batch=3, first_trials=3))
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert not searched_for_the_second_task_while_the_first_was_measured(engine.seen)


def test_a_stop_doesnt_wait_for_candidates_in_the_queue(tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    slow = options(overlap="on", min_repeat_ms=500, trials_per_batch=16, first_trials=16)
    with Engine(start(work_dir, network=MLP, trials_budget=64, options=slow), tmp_path / "console") as engine:
        engine.until(TrialMeasured)
        engine.stop()
        assert engine.to_the_end() == Finished("stopped")
    assert len(engine.trials) < 16
    assert [trial.latency_s for trial in engine.trials] == pytest.approx(latencies(work_dir), rel=1e-12)
    assert not (work_dir / "artifacts").exists()
