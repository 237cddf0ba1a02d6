"""An engine whose candidates are measured elsewhere. The test answers in place of machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tuning.engines.running import Engine, latencies, options, start
from tuning.engines.wire.protocol import (
    Candidate,
    Extend,
    Failed,
    Finished,
    Measured,
    Pool,
    Slots,
    TrialMeasured,
    encode,
)

pytestmark = pytest.mark.tvm
BATCH = 4


def pooled(tmp_path: Path, **changes: Any) -> Engine:
    """A run of 20 trials, searched in batches of 4, for fake devices that want 4 at once; so 8 are kept out."""
    given: dict[str, Any] = {"trials_budget": 20, "pool": Pool(slots=4, look_ahead=2.0, synthetic=True), **changes}
    given.setdefault("options", options(trials_per_batch=BATCH))
    return Engine(start(tmp_path / "work", **given), tmp_path / "console")


def answer(engine: Engine, *candidates: Candidate, **changes: Any) -> None:
    for one in candidates:
        given: dict[str, Any] = {"run_secs": [1e-3], "machine": "a", "synthetic": True} | changes
        engine.write(encode(Measured(id=one.id, **given)))


def candidates_of(engine: Engine) -> list[Candidate]:
    return [event for event in engine.seen if isinstance(event, Candidate)]


def until_trial(engine: Engine, nth: int) -> None:
    while len(engine.trials) < nth:
        engine.until(TrialMeasured)


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace"])
def test_the_search_goes_on_while_results_are_out_but_not_too_far(tmp_path: Path, strategy: Any) -> None:
    chosen = options(trials_per_batch=BATCH, strategy=strategy)
    with pooled(tmp_path, trials_budget=100, options=chosen) as engine:
        engine.until(Candidate, nth=2 * BATCH)
        assert engine.trials == [], "none of the first batch has ended, and there is another one of the same task"
        engine.write(encode(Slots(7)))
        engine.until(Candidate, nth=2 * BATCH)
        assert engine.trials == []
        for nth in range(1, 9):
            answer(engine, candidates_of(engine)[-nth], run_secs=[nth * 1e-3])
            until_trial(engine, nth)
            out = len(candidates_of(engine)) - nth
            assert out < 14 + BATCH
        assert [trial.latency_s for trial in engine.trials] == [nth * 1e-3 for nth in range(1, 9)], (
            "in the order they end"
        )
        engine.until(Candidate)
        engine.stop()
        assert engine.to_the_end() == Finished("stopped"), "with candidates out"
    assert latencies(tmp_path / "work") == pytest.approx([nth * 1e-3 for nth in range(1, 9)])


def test_a_pooled_run_is_stopped_resumed_and_extended(tmp_path: Path) -> None:
    with pooled(tmp_path) as first:
        first.until(Candidate, nth=8)
        sent = candidates_of(first)
        answer(first, sent[5], sent[2], sent[5], sent[5], machine="b")
        answer(first, sent[0], machine="c", run_secs=[], error_kind="run", error="crashed")
        until_trial(first, 3)
        first.stop()
        assert first.to_the_end() == Finished("stopped")
    assert [trial.machine for trial in first.trials] == ["b", "b", "c"], "a second answer isn't a trial"
    assert (first.trials[-1].error_kind, first.trials[-1].error) == ("run", "crashed")
    assert not (tmp_path / "work" / "artifacts").exists()

    with pooled(tmp_path, trials_done=2) as second:
        for _ in range(16):
            answer(second, *reversed(sent), machine="late")
            answer(second, second.until(Candidate))
        last = second.until(Candidate)
        second.write(encode(Extend(22, None)))  # All that was left is out.
        answer(second, last)
        for _ in range(2):
            answer(second, second.until(Candidate))
        assert second.to_the_end() == Finished("budget")
    assert [trial.recovered for trial in second.trials] == [True, *[False] * 19]
    assert {trial.machine for trial in second.trials[1:]} == {"a"}, "the other process's candidates aren't this one's"
    assert len(latencies(tmp_path / "work")) == 22
    assert len(candidates_of(second)) == 19


def test_without_machines_nothing_is_searched(tmp_path: Path) -> None:
    with pooled(tmp_path, trials_budget=100, pool=Pool(slots=1, look_ahead=4.0, synthetic=True)) as engine:
        first = [engine.until(Candidate) for _ in range(BATCH)]
        engine.write(encode(Slots(0)))
        for nth, one in enumerate(first, start=1):
            answer(engine, one)
            until_trial(engine, nth)
        assert len(candidates_of(engine)) == BATCH
        engine.write(encode(Slots(1)))
        engine.until(Candidate)


def test_a_made_up_answer_ends_a_real_run(tmp_path: Path) -> None:
    with pooled(tmp_path, pool=Pool(slots=1)) as engine:
        answer(engine, engine.until(Candidate), machine="toy")
        assert engine.to_the_end() == Failed("The machine toy has a fake device, but this run is to be measured.")
        assert engine.process.returncode == 1
    assert engine.trials == []
