from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tuning.engines.running import Engine, latencies, lines, options, start
from tuning.engines.wire import protocol
from tuning.engines.wire.protocol import Finished, KnownRecord, TasksExtracted, WarmStart, WarmStarted

pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> list[KnownRecord]:
    """The records of a small run, fastest first."""
    folder = tmp_path_factory.mktemp("earlier")
    with Engine(start(folder / "work", trials_budget=6), folder / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    valid = sorted((trial.latency_s, trial.record) for trial in engine.trials if trial.latency_s and trial.record)
    return [KnownRecord(task=0, run=7, text=text) for _, text in valid]


def tune_from(folder: Path, records: list[KnownRecord], **given: object) -> Engine:
    with Engine(start(folder / "work", expect_warm_start=True, **given), folder / "console") as engine:
        engine.until(TasksExtracted)
        engine.write(protocol.encode(WarmStart(records)))
        assert engine.to_the_end() == Finished("budget")
    return engine


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace"])
def test_it_first_measures_the_best_known_record_again(best: list[KnownRecord], strategy: str, tmp_path: Path) -> None:
    engine = tune_from(tmp_path, best, trials_budget=4, options=options(strategy=strategy))
    assert [event for event in engine.seen if isinstance(event, WarmStarted)] == [WarmStarted([0], [7])]
    assert len(engine.trials) == len(latencies(tmp_path / "work")) == 4, "known records aren't trials of this run"
    assert not any(trial.recovered for trial in engine.trials)
    (_, (trace, run_secs, *_)), *_ = lines(tmp_path / "work")
    _, (known_trace, known_secs, *_) = json.loads(best[0].text)
    assert trace == known_trace
    assert run_secs != known_secs, "this run measures it itself"


def test_it_starts_without_known_records(tmp_path: Path) -> None:
    engine = tune_from(tmp_path, [], trials_budget=2)
    assert not any(isinstance(event, WarmStarted) for event in engine.seen)


def test_it_ignores_invalid_records(best: list[KnownRecord], tmp_path: Path) -> None:
    invalid = KnownRecord(task=0, run=3, text='["workload", [[[["NoSuch",[],[],[]]], []], [1.0], null, null]]')
    engine = tune_from(tmp_path, [invalid, best[0]], trials_budget=2)
    assert WarmStarted([0], [7]) in engine.seen
    assert "Ignored a record of run 3 for task 0" in engine.console.read_text()
