from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.tuning.engines.running import COLD, Engine, latencies, options, start
from tuning.engines.wire.protocol import Finished, Phase, TrialMeasured

pytestmark = pytest.mark.tvm


def _until_phase(engine: Engine, name: str) -> None:
    while engine.until(Phase).name != name:
        pass


@pytest.mark.parametrize("by_signal", [False, True])
def test_it_stops_during_a_search(by_signal: bool, tmp_path: Path) -> None:
    # The first candidates are only drawn. An evolution for 64 takes seconds.
    evolving = options(strategy="evolutionary", trials_per_batch=64, first_trials=1)
    with Engine(start(tmp_path / "work", options=evolving, trials_budget=1000), tmp_path / "console") as engine:
        engine.until(TrialMeasured)
        _until_phase(engine, "searching")
        if by_signal:
            os.kill(engine.process.pid, signal.SIGTERM)
        else:
            engine.stop()
        assert engine.to_the_end() == Finished("stopped")
        assert engine.process.returncode == 0
        assert [event.name for event in engine.seen if isinstance(event, Phase)].count("building") == 1


def test_it_finishes_the_running_measurement_when_stopped(tmp_path: Path) -> None:
    given = start(tmp_path / "work", options=options(min_repeat_ms=1200, trials_per_batch=8), trials_budget=8)
    with Engine(given, tmp_path / "console") as engine:
        engine.until(TrialMeasured)
        engine.stop()
        assert engine.to_the_end() == Finished("stopped")
    assert 1 <= len(engine.trials) <= 2
    assert len(latencies(tmp_path / "work")) == len(engine.trials)


def test_it_stops_while_it_loads(tmp_path: Path) -> None:
    with Engine(start(tmp_path / "work"), tmp_path / "console", COLD) as engine:
        _until_phase(engine, "loading")
        engine.stop()
        assert engine.to_the_end() == Finished("stopped")
        assert not engine.trials


@pytest.mark.parametrize(
    "end",
    [
        "kill -9",
        "events closed",
        *(pytest.param(rare, marks=pytest.mark.rare) for rare in ("stdin closed", "finished")),
    ],
)
def test_it_leaves_no_process_behind(end: str, tmp_path: Path) -> None:
    slow = options(min_repeat_ms=1000 if end != "finished" else 10)
    with Engine(start(tmp_path / "work", options=slow, trials_budget=3), tmp_path / "console") as engine:
        engine.until(TrialMeasured)
        family = engine.family()
        assert len(family) > 2
        assert engine.process.stdin
        if end == "kill -9":
            engine.process.kill()
        elif end == "stdin closed":
            engine.process.stdin.close()
        elif end == "events closed":
            engine.events.close()
        else:
            engine.to_the_end()
        engine.process.wait()
        _, alive = psutil.wait_procs(family, timeout=20)
        assert not alive
