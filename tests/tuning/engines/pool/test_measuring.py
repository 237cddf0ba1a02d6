"""Runs over several machines: an engine and measuring processes, all real, and one machine that builds and measures alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import zstandard

from tests.tuning.engines.pooling import Machine, Supervisor, pool_start
from tests.tuning.engines.running import Engine, latencies, options, start
from tuning.engines.wire.pools.messages import Probe, Probed, Ready
from tuning.engines.wire.protocol import (
    Candidate,
    Event,
    Failed,
    Finished,
    Measured,
    Pool,
    TasksExtracted,
    TrialMeasured,
)
from tuning.work import warm_parent
from tuning.work.warm_parent import WarmParent

pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmParent]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm_parent, "WAIT_S", 100.0)  # A busy machine loads TVM slowly.
        parent = WarmParent("tuning.engines.pool", "llvm")
        parent.start()
        yield parent
        parent.stop()


def test_a_run_survives_the_death_of_a_machine(tmp_path: Path, warm: WarmParent) -> None:
    given = start(tmp_path / "work", trials_budget=14, pool=Pool(slots=0), options=options())
    with Engine(given, tmp_path / "console") as engine:
        target = engine.until(TasksExtracted).target
        with (
            Machine(pool_start("first", target), tmp_path / "first", warm) as first,
            Machine(pool_start("second", target), tmp_path / "second", warm) as second,
        ):
            supervisor = Supervisor(engine, [first, second])
            died_with: list[str] = []

            def kill_first(event: Event) -> None:
                measured = [trial.machine for trial in engine.trials]
                if not died_with and isinstance(event, TrialMeasured) and {"first", "second"} <= set(measured):
                    died_with.extend(first.holds)
                    first.kill()

            assert supervisor.run(kill_first) == Finished("budget")
    assert died_with, "it was killed while it held candidates"
    assert len(engine.trials) == 14
    assert [trial.error for trial in engine.trials] == [None] * 14
    assert [trial.latency_s for trial in engine.trials] == pytest.approx(latencies(tmp_path / "work"), rel=1e-12)
    assert {trial.machine for trial in engine.trials} == {"first", "second"}
    assert len(supervisor.given) > len(set(supervisor.given)) == 14, "others measured what it had held"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Candidate]:
    """A target and a candidate for it."""
    folder = tmp_path_factory.mktemp("engine")
    with Engine(start(folder / "work", pool=Pool(slots=1)), folder / "console") as engine:
        target = engine.until(TasksExtracted).target
        return target, engine.until(Candidate)


@pytest.mark.parametrize("overlap", ["auto", "on"])
def test_a_bad_candidate_costs_only_itself_and_probes_are_measured_in_rounds(
    tmp_path: Path, warm: WarmParent, good: tuple[dict[str, Any], Candidate], overlap: Any
) -> None:
    target, fine = good
    bad = msgspec.structs.replace(fine, id="bad", module=zstandard.compress(b"[]"))
    failing = msgspec.structs.replace(fine, id="failing", args_info=[("TENSOR", "float32", [1])])
    slow = msgspec.structs.replace(fine, id="slow", limit_s=1e-12)
    given = pool_start("one", target, min_repeat_ms=100, overlap=overlap)
    with Machine(given, tmp_path / "console", warm) as machine:
        assert machine.until(Ready).wants >= 2
        machine.ask(bad, failing, Probe(fine, 3), fine, slow)
        answers: dict[str, Any] = {}
        while len(answers) < 5:
            event = machine.until((Measured, Probed))
            answers["probe" if isinstance(event, Probed) else event.id] = event
    assert answers["bad"].error_kind == "build"
    assert answers["bad"].measure_s is None
    assert answers["failing"].error_kind == "run"
    measured: Measured = answers[fine.id]
    assert (measured.machine, measured.error, measured.short, measured.synthetic) == ("one", None, False, False)
    assert len(measured.run_secs) == 1
    assert measured.build_s
    assert measured.measure_s
    assert answers["slow"].short
    assert len(answers["slow"].run_secs) > 1
    probed: Probed = answers["probe"]
    assert (probed.id, probed.error, len(probed.run_secs)) == (fine.id, None, 3)


@pytest.mark.parametrize(("own", "used"), [(4096, 4096), (0, 0), (None, 1024)])
def test_a_candidate_is_measured_as_cold_as_its_task_or_else_as_its_run(
    own: int | None, used: int, tmp_path: Path
) -> None:
    from tvm.target import Target

    from tuning.engines.pool.machine import Machine as OfPool

    asked: list[Any] = []
    runner: Any = SimpleNamespace(run=lambda *how: asked.append(how))
    machine: Any = SimpleNamespace(_start=pool_start("one", {}, cold_bytes=1024), _target=Target("llvm"))
    candidate = Candidate("a", 0, b"", [("TENSOR", "float32", [1])], cold_bytes=own)
    OfPool._measured(machine, runner, tmp_path / "a.ll", candidate, 1.0)
    assert asked == [(tmp_path / "a.ll", "cpu", [("TENSOR", "float32", [1])], 1.0, used)]


def test_its_engine_tells_of_each_candidate_how_cold_it_is(good: tuple[dict[str, Any], Candidate]) -> None:
    _, candidate = good
    assert candidate.cold_bytes


def test_a_machine_that_cant_run_the_targets_code_says_so(tmp_path: Path, warm: WarmParent) -> None:
    foreign: dict[str, Any] = {"kind": "llvm", "mcpu": "nosuch", "num-cores": 1}
    with Machine(pool_start("one", foreign), tmp_path / "console", warm) as machine:
        *_, last = machine
        assert isinstance(last, Failed)
        assert last.field == "target"
        assert "nosuch" in last.error


def test_a_damaged_candidate_ends_the_process_rather_than_its_trial(tmp_path: Path, warm: WarmParent) -> None:
    damaged = Candidate("a", 0, b"damaged", [("TENSOR", "float32", [1])])
    with Machine(pool_start("one", {"kind": "llvm", "num-cores": 1}), tmp_path / "console", warm) as machine:
        machine.until(Ready)
        machine.ask(damaged)
        *_, last = machine
    assert isinstance(last, Failed)
    assert "candidate a can't be read" in last.error
