"""AutoTVM for VTA with `vta_stand_in` in place of a VTA build: the path around VTA is real, what it builds and measures is not VTA's."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.tuning.engines.running import ROOT
from tests.tuning.engines.trackers import KEY, RpcDevices
from tuning.engines.wire.legacy import LegacyStart, Probed, RelaySpec
from tuning.engines.wire.protocol import Failed, Finished, NetworkSpec, Remote, TasksExtracted

from .legacy_running import Legacy
from .test_probe import PROBE

pytestmark = pytest.mark.tvm

STAND_IN = Path(__file__).parent / "vta_stand_in"
TARGET = {"kind": "ext_dev", "keys": ["vta", "cpu"], "device": "vta", "model": "sim_stand_in", "host": {"kind": "llvm"}}
SMALL = RelaySpec("resnet", 1, [3, 28, 28], "NCHW", "float32", 10, depth=8)
"""A ResNet for small images, with 8 different convolutions that fit VTA."""
PATHS = {"PYTHONPATH": f"{ROOT}{os.pathsep}{STAND_IN}"}


def start(legacy: Legacy, options: dict[str, Any] | None = None, **changes: Any) -> LegacyStart:
    chosen = {"vta_start": "nn.conv2d", "tasks": [5, 6], "build_workers": 2, **(options or {})}
    network = {"network": NetworkSpec("resnet-8"), "relay": SMALL, "target": TARGET}
    return legacy.start(chosen, **network | changes)


def probe(python: str, **env: str) -> Probed:
    told = subprocess.run([python, *PROBE], cwd=ROOT, env=os.environ | env, capture_output=True, check=True).stdout
    return msgspec.json.decode(told.splitlines()[-1], type=Probed)


def test_an_interpreter_without_vta_says_so(legacy_python: str) -> None:
    found = probe(legacy_python)
    assert found.vta is None
    assert found.no_vta == "vta: ModuleNotFoundError: No module named 'vta'"


@pytest.mark.rare
def test_the_probe_describes_a_build(legacy_python: str, tmp_path: Path) -> None:
    simulator = probe(legacy_python, **PATHS).vta
    assert simulator
    assert (simulator.target, simulator.model, simulator.simulates) == ("sim", "sim_stand_in", True)
    assert (simulator.host, simulator.trouble) == ("llvm", None)
    without = probe(legacy_python, **PATHS, VTA_STAND_IN_FAULT="no_simulator").vta
    assert without
    assert "isn't enabled" in str(without.trouble)
    (tmp_path / "other.bit").touch()
    board = probe(legacy_python, **PATHS, VTA_STAND_IN_TARGET="pynq", VTA_CACHE_PATH=str(tmp_path)).vta
    assert board
    assert (board.target, board.simulates) == ("pynq", False)
    assert (board.bitstream, board.bitstreams) == ("stand_in.bit", ["other.bit"])


def test_it_tunes_packed_convolutions_and_repeats_none_when_it_is_resumed(autotvm: Legacy) -> None:
    with autotvm.run(start(autotvm, {"tasks": None}, trials_budget=8), **PATHS) as engine:
        tasks = engine.until(TasksExtracted).tasks
        assert engine.to_the_end() == Finished("budget")
    assert {task.name for task in tasks} == {"conv2d_packed.vta"}
    assert [task.weight for task in tasks] == [2, 1, 1, 1, 1, 1, 1, 1]
    assert Counter(trial.task for trial in engine.trials) == dict.fromkeys(range(8), 1)
    assert None not in autotvm.latencies()
    first = autotvm.lines()[0]["input"]
    assert first[0] == "ext_dev -keys=vta,cpu -device=vta -model=sim_stand_in"
    assert first[1:3] == ["conv2d_packed.vta", json.loads(json.dumps(first[2]))]

    with autotvm.run(start(autotvm, trials_done=8, trials_budget=12), **PATHS) as engine:
        assert engine.to_the_end() == Finished("budget")
    assert Counter(trial.task for trial in engine.trials) == {5: 2, 6: 2}
    assert len(autotvm.lines()) == len(set(autotvm.candidates())) == 12


@pytest.mark.rare
def test_failed_candidates_are_trials_and_break_no_other(autotvm: Legacy, tmp_path: Path) -> None:
    faults = {"VTA_STAND_IN_FAULT": "compile,crash,hang", "VTA_STAND_IN_LOG": str(tmp_path / "calls")}
    with autotvm.run(start(autotvm, {"run_timeout_s": 2}, trials_budget=12), **PATHS, **faults) as engine:
        assert engine.to_the_end() == Finished("budget")
    measured = [trial for trial in engine.trials if "Cannot match copy pattern of a stand-in" not in str(trial.error)]
    assert 3 <= len(measured) < 12
    outcomes = [("run", "was killed by SIGSEGV"), ("run_timeout", "took longer than its timeout"), (None, "None")]
    for (kind, said), trial in zip(cycle(outcomes), measured):
        assert trial.error_kind == kind
        assert said in str(trial.error)
        assert (trial.latency_s is None) == (kind is not None)


@pytest.mark.rare
def test_what_cant_be_packed_is_the_networks_fault(autotvm: Legacy) -> None:
    with autotvm.run(start(autotvm, {"vta_start": "nn.max_pool2d"}), **PATHS) as engine:
        failed = engine.to_the_end()
    assert isinstance(failed, Failed)
    assert failed.field == "network"
    assert "resnet-8 can't be packed for VTA" in failed.error


@pytest.mark.rare
@pytest.mark.parametrize(
    ("options", "programs"),
    [
        ({"vta_bitstream": "other.bit"}, ["reconfig_runtime", "program_fpga BIT"]),
        ({}, ["reconfig_runtime", "program_fpga None"]),
        ({"vta_program": False}, []),
    ],
)
def test_boards_are_programmed_before_each_session(
    options: dict[str, Any], programs: list[str], autotvm: Legacy, tmp_path: Path
) -> None:
    """The tracker and the RPC server are real, and the server stands for a board."""
    bitstream, log = tmp_path / "other.bit", tmp_path / "calls"
    bitstream.write_text("bits")
    env = {**PATHS, "VTA_STAND_IN_TARGET": "pynq", "VTA_STAND_IN_LOG": str(log), "VTA_CACHE_PATH": str(tmp_path)}
    with RpcDevices(tmp_path, autotvm.python, "vta.exec.rpc_server", **PATHS) as devices:
        devices.add()
        devices.wait_until_there_are(1)
        asked = start(autotvm, options, trials_budget=2, remote=Remote(devices.address, KEY))
        with autotvm.run(asked, **env) as engine:
            assert engine.to_the_end() == Finished("budget")
        assert devices.loaded(0) == 2
    assert None not in autotvm.latencies()
    calls = log.read_text().replace(str(bitstream), "BIT").splitlines() if log.exists() else []
    assert calls == programs * 2
