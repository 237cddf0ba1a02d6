from __future__ import annotations

import os
import signal

import psutil
import pytest

from tests.tuning.engines.running import Engine
from tuning.engines.wire.protocol import Finished, Phase, TrialMeasured

from .legacy_running import EVERYDAY, Legacy

pytestmark = pytest.mark.tvm


def _until_phase(engine: Engine, name: str) -> None:
    while engine.until(Phase).name != name:
        pass


@pytest.mark.parametrize("by_signal", [pytest.param(False, marks=pytest.mark.rare), True])
def test_it_stops_during_a_search(by_signal: bool, auto_scheduler: Legacy) -> None:
    long = {"evolutionary_search_population": 2048, "evolutionary_search_num_iters": 1000, "cost_model": "xgb"}
    with auto_scheduler.run(auto_scheduler.start(long)) as engine:
        _until_phase(engine, "searching")
        if by_signal:
            os.kill(engine.process.pid, signal.SIGTERM)
        else:
            engine.stop()
        assert engine.to_the_end() == Finished("stopped")
        assert engine.process.returncode == 0
        assert "building" not in [event.name for event in engine.seen if isinstance(event, Phase)]


@EVERYDAY
def test_it_finishes_the_running_measurement_when_stopped(legacy: Legacy) -> None:
    with legacy.run(legacy.start({"min_repeat_ms": 1200}, trials_budget=8)) as engine:
        engine.until(TrialMeasured)
        engine.stop()
        assert engine.to_the_end() == Finished("stopped")
    assert 1 <= len(engine.trials) <= 2
    assert len(legacy.lines()) == len(engine.trials)


@pytest.mark.rare
@pytest.mark.parametrize("end", ["kill -9", "stdin closed", "events closed"])
def test_it_leaves_no_process_behind(end: str, autotvm: Legacy) -> None:
    with autotvm.run(autotvm.start({"min_repeat_ms": 1000}, trials_budget=3)) as engine:
        engine.until(TrialMeasured)
        family = engine.family()
        assert len(family) > 2
        assert engine.process.stdin
        if end == "kill -9":
            engine.process.kill()
        elif end == "stdin closed":
            engine.process.stdin.close()
        else:
            engine.events.close()
        engine.process.wait()
        _, alive = psutil.wait_procs(family, timeout=20)
        assert not alive
