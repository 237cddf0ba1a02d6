from __future__ import annotations

from pathlib import Path

import pytest

from tests.live import free_port
from tests.tuning.engines.trackers import KEY, RpcDevices
from tuning.engines.wire.protocol import Failed, Finished, Remote
from tuning.engines.wire.tracker import Address

from .legacy_running import EVERYDAY, Legacy

pytestmark = pytest.mark.tvm


@EVERYDAY
def test_it_measures_on_a_trackers_device(legacy: Legacy, tmp_path: Path) -> None:
    with RpcDevices(tmp_path, legacy.python) as devices:
        devices.add()
        devices.wait_until_there_are(1)
        with legacy.run(legacy.start(trials_budget=2, remote=Remote(devices.address, KEY))) as engine:
            assert engine.to_the_end() == Finished("budget")
        assert devices.loaded(0) == 2
    assert [trial.latency_s for trial in engine.trials] == pytest.approx(legacy.latencies(), rel=1e-4)
    assert None not in legacy.latencies()


@pytest.mark.rare
def test_a_run_ends_if_its_tracker_doesnt_answer(auto_scheduler: Legacy) -> None:
    nobody = Remote(Address("127.0.0.1", free_port()), KEY)
    with auto_scheduler.run(auto_scheduler.start(remote=nobody)) as engine:
        failed = engine.to_the_end()
    assert isinstance(failed, Failed)
    assert "Cannot get remote devices from the tracker" in failed.error
