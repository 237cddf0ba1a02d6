"""How trials are measured, and what is built of records to be measured again: as cold as their task's weights are in the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tuning.engines.oneshot.test_generating import record
from tuning.engines.measuring.outcomes import Failure, Timing

pytestmark = pytest.mark.tvm
TARGET = {"kind": "llvm", "num-cores": 1}


class Builder:
    def build(self, mods: Sequence[str], _target: str) -> Iterator[tuple[int, Path]]:
        yield from ((index, Path(f"{index}.ll")) for index in reversed(range(len(mods))))


class Runner:
    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.cold_bytes: list[int] = []

    def run(self, path: Path, *built: Any) -> Timing:
        self.paths.append(path)
        self.cold_bytes.append(built[-1])
        return Timing([1e-3])


def test_a_trial_is_measured_as_cold_as_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    from tuning.engines.meta_schedule import measurement

    monkeypatch.setattr(measurement, "described", lambda _candidate: [])
    trials = SimpleNamespace(
        cold_bytes=[0, 4096].__getitem__,
        race_limit_s=lambda _task: None,
        report_phase=lambda *_: None,
        measurement=nullcontext,
        stopwatch=SimpleNamespace(doing=lambda _what: nullcontext()),
    )
    runner = Runner()
    for task in (1, 0):
        batch = SimpleNamespace(task=task, candidates=[None], built=[0], builds={})
        search: Any = SimpleNamespace(batch=batch, trials=trials, end_trial=lambda *_, **__: 1)
        one = SimpleNamespace(artifact_path="built.ll", device_type="cpu")
        measurement.TrialRunner(search, runner, None, None)._inst.run(
            [one]
        )  # What TVM calls takes only its own structs.
    assert runner.cold_bytes == [4096, 0]


def test_what_cant_be_built_in_the_background_isnt_measured_and_teaches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tuning.engines.meta_schedule import measurement
    from tuning.engines.meta_schedule.rounds.ranking import NOT_BUILT

    monkeypatch.setattr(measurement, "described", lambda _candidate: [])
    trials = SimpleNamespace(
        cold_bytes=lambda _task: 0,
        race_limit_s=lambda _task: None,
        report_phase=lambda *_: None,
        stopwatch=SimpleNamespace(doing=lambda _what: nullcontext()),
    )
    ended: dict[int, Any] = {}
    builds: dict[int, Future[Any]] = {0: Future(), 1: Future()}
    batch = SimpleNamespace(task=0, candidates=[None, None], built=[0, 1], builds=builds)
    search: Any = SimpleNamespace(
        batch=batch, trials=trials, end_trial=lambda _, index, outcome, **__: ended.setdefault(index, outcome)
    )
    one = SimpleNamespace(artifact_path="being built", device_type="cpu")
    runner = Runner()
    background = measurement.Background(threads=1)
    failed, measured = measurement.TrialRunner(search, runner, background, None)._inst.run([one, one])
    assert not failed.done()
    builds[1].set_result(Path("1.ll"))
    assert [float(each) for each in measured.result().run_secs] == [1e-3]
    assert not failed.done(), "what is built first is measured first"
    failure = Failure("build", "no such intrinsic")
    builds[0].set_result(failure)
    assert failed.result().error_msg == f"{NOT_BUILT}no such intrinsic"
    assert ended == {0: failure, 1: Timing([1e-3])}
    assert runner.paths == [Path("1.ll")]


def test_what_is_built_again_is_measured_as_cold_as_it_was() -> None:
    from tvm.target import Target

    from tuning.engines.meta_schedule.trust.rebuilding import rebuild

    builder: Any = Builder()
    texts = [record(TARGET, 4), "no record", record(TARGET, 16)]
    found = dict(rebuild(texts, [1, 2, 3], builder, Target(TARGET)))
    assert {index: built.cold_bytes for index, built in found.items()} == {0: 1, 2: 3}
