"""Measuring through TVM's tracker and RPC servers, all on loopback."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.engines import faults
from tests.tuning.engines.running import Engine, latencies, options, start
from tests.tuning.engines.trackers import KEY, RpcDevices, kill
from tuning.engines.measuring import sessions, workers
from tuning.engines.measuring.outcomes import Failure, Timing
from tuning.engines.measuring.remote import RemoteRunner
from tuning.engines.targets import intrinsics, resolving
from tuning.engines.wire import tracker
from tuning.engines.wire.protocol import (
    Confirmed,
    Failed,
    Finished,
    NetworkSpec,
    Phase,
    Reference,
    ReferenceMeasured,
    Remote,
    Start,
    TrialMeasured,
)

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
TRIALS = 6


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[RpcDevices]:
    with RpcDevices(tmp_path) as devices:
        yield devices


def remote_start(devices: RpcDevices, work_dir: Path, **changes: Any) -> Start:
    given = {"network": NetworkSpec("mlp"), "trials_budget": TRIALS, "remote": Remote(devices.address, KEY, 20.0)}
    return start(work_dir, **given | changes)


def test_a_killed_device_neither_loses_nor_doubles_a_trial(devices: RpcDevices, tmp_path: Path) -> None:
    devices.add(2)
    devices.wait_until_there_are(2)
    work_dir = tmp_path / "work"
    slow = options(min_repeat_ms=1000)
    with Engine(remote_start(devices, work_dir, options=slow), tmp_path / "console") as engine:
        engine.until(TrialMeasured, nth=2)
        devices.wait_until_it_measures(0)
        kill(devices.servers[0])
        assert engine.to_the_end() == Finished("budget"), engine.console.read_text()
    assert "was lost in the middle of a trial" in engine.console.read_text()
    assert len(engine.trials) == TRIALS
    assert [trial.error for trial in engine.trials if trial.error] == [], "a lost device isn't the candidate's fault"
    assert [trial.latency_s for trial in engine.trials] == pytest.approx(latencies(work_dir), rel=1e-12)


@pytest.mark.rare
def test_references_and_the_best_records_are_measured_again_on_the_devices(devices: RpcDevices, tmp_path: Path) -> None:
    devices.add(2)
    devices.wait_until_there_are(2)
    reference = Reference(every_s=0, most_share=1)
    given = remote_start(devices, tmp_path / "work", trials_budget=12, options=options(confirm=2), reference=reference)
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget"), engine.console.read_text()
    confirmed = {event.task for event in engine.seen if isinstance(event, Confirmed)}
    assert confirmed == {trial.task for trial in engine.trials if trial.latency_s and not trial.short}
    told = [event for event in engine.seen if isinstance(event, ReferenceMeasured)]
    assert len(told) > 0
    assert len({event.trial for event in told}) == 1
    assert all(event.latency_s > 0 for event in told)
    assert len(engine.trials) == len(latencies(tmp_path / "work")) == 12


@pytest.mark.rare
def test_a_run_whose_devices_are_lost_while_it_is_confirmed_has_done_its_work(
    devices: RpcDevices, tmp_path: Path
) -> None:
    devices.add()
    devices.wait_until_there_are(1)
    impatient = Remote(devices.address, KEY, patience_s=2.0)
    slow = options(confirm=3, min_repeat_ms=500)
    given = remote_start(devices, tmp_path / "work", remote=impatient, options=slow)
    with Engine(given, tmp_path / "console") as engine:
        while engine.until(Phase).name != "confirming":
            pass
        kill(devices.servers[0])
        assert engine.to_the_end() == Finished("budget"), engine.console.read_text()


def test_a_run_says_why_it_ends_without_a_device(devices: RpcDevices, tmp_path: Path) -> None:
    impatient = Remote(devices.address, KEY, patience_s=2.0)
    with Engine(remote_start(devices, tmp_path / "work", remote=impatient), tmp_path / "console") as engine:
        last = engine.to_the_end()
    assert isinstance(last, Failed)
    assert (
        last.error
        == f"No device was available for 2 s. The tracker at {devices.address} has no device with the key {KEY}."
    )


class GaveUp(Exception):
    pass


@contextmanager
def runner(context: ForkServerContext, devices: RpcDevices, timeout_s: float = 30.0) -> Iterator[RemoteRunner]:
    def give_up(reason: str) -> None:
        raise GaveUp(reason)

    remote = Remote(devices.address, KEY, patience_s=2.0)
    remote_runner = RemoteRunner(context, remote, config=(1, 2, 0), timeout_s=timeout_s, give_up=give_up)
    yield remote_runner
    remote_runner.close()


SQUARE = [["TENSOR", "float32", [8]], ["TENSOR", "float32", [8]]]


def built(path: Path, target: dict[str, Any]) -> Path:
    """A function that takes two arrays of 8 numbers."""
    import tvm
    from tvm import te

    intrinsics.load("llvm")  # TVM would load those of all targets, which takes 8 s of CPU.
    given = te.placeholder((8,), name="given")
    squared = te.compute((8,), lambda i: given[i] * given[i], name="squared")
    mod = tvm.IRModule({"main": te.create_prim_func([given, squared])})
    workers.build(tvm.ir.save_json(mod), json.dumps(target), str(path))
    return path


@pytest.mark.rare
def test_a_device_links_an_artifact_of_objects(context: ForkServerContext, devices: RpcDevices, tmp_path: Path) -> None:
    devices.add()
    devices.wait_until_there_are(1)
    path = built(tmp_path / "0-0.tar", {"kind": "llvm"})
    with runner(context, devices) as remote:
        timing = remote.run(path, "cpu", SQUARE)
    assert isinstance(timing, Timing)
    assert len(timing.run_secs) == 2
    assert all(0 < seconds < 1 for seconds in timing.run_secs)
    assert not path.exists()


def test_only_the_candidate_at_fault_fails(
    context: ForkServerContext, devices: RpcDevices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error leaves the session alive; the device ends one that takes too long."""
    devices.add()
    devices.wait_until_there_are(1)
    path = built(tmp_path / "0-0.so", {"kind": "llvm"})
    with runner(context, devices, timeout_s=3.0) as remote:
        wrong = remote.run(path, "cpu", SQUARE[:1])
        monkeypatch.setattr(sessions, "measure", faults.measure_forever)
        slow = remote.run(tmp_path / "0-1.so", "cpu", [])
    assert isinstance(wrong, Failure)
    assert wrong.kind == "run"
    assert "main" in wrong.text
    assert slow == Failure("run_timeout", "Took longer than 3 s to run, and was stopped.")
    devices.wait_until_there_are(1)


@pytest.mark.rare
def test_a_candidate_that_crashes_two_servers_fails(
    context: ForkServerContext, devices: RpcDevices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TVM's Python server ends with a session that crashes, just as if the device were lost."""
    devices.add(2)
    devices.wait_until_there_are(2)
    monkeypatch.setattr(sessions, "measure", faults.crash_session)
    with runner(context, devices) as remote:
        outcome = remote.run(tmp_path / "0-0.so", "cpu", [])
    assert outcome == Failure("run", "2 devices were lost while they measured this candidate.")
    devices.wait_until_there_are(0)


def test_the_tracker_is_read_without_tvm(devices: RpcDevices) -> None:
    devices.add()
    devices.wait_until_there_are(1)
    given = tracker.summary(devices.address)
    assert [(queue.key, queue.total, queue.pending) for queue in given.queues] == [(KEY, 1, 0)]
    assert [key for key, _ in given.servers] == [KEY]


def test_another_cpu_architecture_gets_objects_to_link(tmp_path: Path) -> None:
    from tvm.target import Target

    other = "x86_64-linux-gnu" if "aarch64" in resolving._triple(Target("llvm")) else "aarch64-linux-gnu"
    board = {"kind": "llvm", "mtriple": other, "num-cores": 4}
    resolved = resolving.resolve(board, remote=True)
    assert sessions.artifact_suffix(Target(resolved.target)) == ".tar"
    path = built(tmp_path / "0-0.tar", resolved.target)
    with tarfile.open(path) as archive:
        member = archive.extractfile(archive.getmembers()[0])
        assert member
        header = member.read(20)
    assert header[:4] == b"\x7fELF"
    machine = int.from_bytes(header[18:20], "little")
    assert machine == (183 if other.startswith("aarch64") else 62)
