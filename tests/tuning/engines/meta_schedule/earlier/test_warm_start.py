from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import msgspec
import pytest
from tvm.target import Target

from tests.tuning.engines.running import Engine, latencies, lines, options, start
from tuning.engines import networks
from tuning.engines.meta_schedule.earlier.warm_start import PriorRecords, read_continued
from tuning.engines.networks import extraction
from tuning.engines.targets.resolving import resolve
from tuning.engines.wire import protocol
from tuning.engines.wire.errors import RunRefused
from tuning.engines.wire.protocol import (
    Begun,
    Finished,
    KnownRecord,
    NetworkSpec,
    TasksExtracted,
    WarmStart,
    WarmStarted,
)
from tuning.logs.meta_schedule import CONTINUED, RECORDS, WORKLOADS

pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run, number 7."""
    return tmp_path_factory.mktemp("earlier") / "work"


@pytest.fixture(scope="module")
def best(earlier: Path) -> list[KnownRecord]:
    """Its records, fastest first."""
    with Engine(start(earlier, trials_budget=6), earlier.with_name("console")) as engine:
        assert engine.to_the_end() == Finished("budget")
    valid = sorted((trial.latency_s, trial.record) for trial in engine.trials if trial.latency_s and trial.record)
    return [KnownRecord(task=0, run=7, text=text) for _, text in valid]


def tune_from(folder: Path, records: list[KnownRecord], **given: object) -> Engine:
    with Engine(start(folder / "work", expect_warm_start=True, **given), folder / "console") as engine:
        engine.until(TasksExtracted)
        engine.write(protocol.encode(WarmStart(records)))
        assert engine.to_the_end() == Finished("budget")
    return engine


def begun_with(record: KnownRecord) -> WarmStarted:
    """What is told if this record is measured first: its latency is that in its text unless the supervisor knows better."""
    run_secs = json.loads(record.text)[1][1]
    return WarmStarted([0], [7], [Begun(0, 7, record.latency_s or fmean(run_secs))])


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace"])
def test_it_first_measures_the_best_known_record_again(best: list[KnownRecord], strategy: str, tmp_path: Path) -> None:
    engine = tune_from(tmp_path, best, trials_budget=4, options=options(strategy=strategy))
    assert [event for event in engine.seen if isinstance(event, WarmStarted)] == [begun_with(best[0])]
    assert len(engine.trials) == len(latencies(tmp_path / "work")) == 4, "known records aren't trials of this run"
    assert not any(trial.recovered for trial in engine.trials)
    (_, (trace, run_secs, *_)), *_ = lines(tmp_path / "work")
    _, (known_trace, known_secs, *_) = json.loads(best[0].text)
    assert trace == known_trace
    assert run_secs != known_secs, "this run measures it itself"


def test_it_starts_without_known_records(tmp_path: Path) -> None:
    engine = tune_from(tmp_path, [], trials_budget=2)
    assert not any(isinstance(event, WarmStarted) for event in engine.seen)


def test_a_known_latency_counts_more_than_that_of_the_record(best: list[KnownRecord], tmp_path: Path) -> None:
    confirmed = msgspec.structs.replace(best[0], latency_s=0.25)
    assert begun_with(confirmed) in tune_from(tmp_path, [confirmed, *best[1:]], trials_budget=1).seen


def test_it_ignores_invalid_records(best: list[KnownRecord], tmp_path: Path) -> None:
    invalid = KnownRecord(task=0, run=3, text='["workload", [[[["NoSuch",[],[],[]]], []], [1.0], null, null]]')
    engine = tune_from(tmp_path, [invalid, best[0]], trials_budget=2)
    assert begun_with(best[0]) in engine.seen
    assert "Ignored a record of run 3 for task 0" in engine.console.read_text()


def continuing(earlier: Path, folder: Path) -> None:
    """Bring the record files of the earlier run, as the supervisor does. The last line is one that a killed process left incomplete."""
    copied = folder / "work" / CONTINUED
    copied.mkdir(parents=True)
    for name in (RECORDS, WORKLOADS):
        shutil.copyfile(earlier / name, copied / name)
    with (copied / RECORDS).open("a") as file:
        file.write("[0,[[[")


def test_it_begins_with_all_trials_of_the_run_that_it_continues(
    best: list[KnownRecord], earlier: Path, tmp_path: Path
) -> None:
    continuing(earlier, tmp_path)
    engine = tune_from(tmp_path, best, trials_budget=3, continued=7)
    assert begun_with(best[0]) in engine.seen
    assert len(engine.trials) == len(latencies(tmp_path / "work")) == 3, "its trials aren't trials of this run"
    (_, (trace, *_)), *_ = lines(tmp_path / "work")
    assert trace == json.loads(best[0].text)[1][0]


def test_the_search_and_the_cost_model_know_each_of_them_once(
    best: list[KnownRecord], earlier: Path, tmp_path: Path
) -> None:
    continuing(earlier, tmp_path)
    target = Target(resolve("this", remote=False).target)
    mod = extraction.legalized(networks.build(NetworkSpec("matmul", {"n": 64})).mod, target)
    mods = [task.dispatched[0] for task in extraction.extract(mod, target)]
    continued = read_continued(7, tmp_path / "work", mods, {0})
    prior = PriorRecords(mods, [[]], best[:2], continued)
    learned: list[int] = []
    model = SimpleNamespace(update=lambda _context, candidates, results: learned.append(len(candidates)))
    prior.train(model, {0: None})
    valid = [latency_s for latency_s in latencies(earlier) if latency_s]
    assert learned == [len(valid)] == [len(prior.database)]
    unchosen = read_continued(7, tmp_path / "work", mods, set())
    assert unchosen is not None
    assert unchosen.records == [[]]


def test_records_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / CONTINUED).mkdir()
    (tmp_path / CONTINUED / RECORDS).write_text("[7, []]\n")
    with pytest.raises(RunRefused, match="The records of run 7, which this one continues, can't be read"):
        read_continued(7, tmp_path, [], {0})
