"""Builder and runner with real worker processes, and candidates that crash or hang."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tuning.engines import faults
from tuning.engines.measuring import workers
from tuning.engines.measuring.local import LocalBuilder, LocalRunner
from tuning.engines.measuring.outcomes import Failure, Timing

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
ARGUMENTS = [["TENSOR", "float32", [8]], ["TENSOR", "float32", [8]]]


def builder(context: ForkServerContext, folder: Path, **changes: Any) -> LocalBuilder:
    given: dict[str, Any] = {"max_workers": 2, "timeout_s": 60.0, "suffix": ".ll"}
    return LocalBuilder(context, folder / "artifacts", **given | changes)


def build_faulty(
    context: ForkServerContext, tmp_path: Path, *mods: str, timeout_s: float = 60.0
) -> list[Path | Failure]:
    """The outcomes of "modules" that the stand-in builds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "build", faults.build)
        results = dict(builder(context, tmp_path, timeout_s=timeout_s).build(mods, "{}"))
    return [results[index] for index in range(len(mods))]


def test_a_crash_fails_only_its_candidate(context: ForkServerContext, tmp_path: Path) -> None:
    first, crashed, exited, refused, last = build_faulty(context, tmp_path, "a", "segfault", "exit", "raise", "b")
    assert isinstance(first, Path)
    assert isinstance(last, Path)
    assert last.read_text() == "b"
    assert crashed == Failure("build", "The build process was killed by SIGSEGV (Segmentation fault).")
    assert exited == Failure("build", "The build process exited with status 7.")
    assert refused == Failure("build", "ValueError: no such intrinsic")


def test_a_hanging_build_is_stopped_at_the_timeout(context: ForkServerContext, tmp_path: Path) -> None:
    hung, stubborn, fine = build_faulty(context, tmp_path, "hang", "stubborn", "fine", timeout_s=1.5)
    timeout = Failure("build_timeout", "Took longer than 1.5 s to build, and was stopped.")
    assert (hung, stubborn) == (timeout, timeout)
    assert isinstance(fine, Path)


def test_it_yields_each_build_when_it_ends(context: ForkServerContext, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "build", faults.build)
        results = builder(context, tmp_path, timeout_s=3.0).build(["hang", "a", "b"], "{}")
        assert [index for index, _ in results] == [1, 2, 0]


def test_builds_yield_to_what_measures(context: ForkServerContext, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "build", faults.build)
        usual, yielding = (
            dict(builder(context, tmp_path / str(niceness), niceness=niceness).build(["nice"], "{}"))[0]
            for niceness in (0, 7)
        )
    assert isinstance(usual, Path)
    assert isinstance(yielding, Path)
    assert int(yielding.read_text()) == min(19, int(usual.read_text()) + 7)


def test_no_worker_outlives_its_batch(context: ForkServerContext, tmp_path: Path) -> None:
    build_faulty(context, tmp_path, "a", "stubborn", timeout_s=0.5)
    server = psutil.Process(forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]
    assert not psutil.wait_procs(server.children(), timeout=10)[1]


def test_it_passes_on_tvms_error(context: ForkServerContext, tmp_path: Path) -> None:
    ((_, result),) = builder(context, tmp_path).build(["no module"], '{"kind": "llvm"}')
    assert isinstance(result, Failure)
    assert result.kind == "build"
    assert "JSON" in result.text
    assert "Traceback" not in result.text


def test_it_deletes_what_a_killed_process_left(context: ForkServerContext, tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "0.ll").write_text("old")
    builder(context, tmp_path)
    assert not list((tmp_path / "artifacts").iterdir())


def built(context: ForkServerContext, folder: Path, call: str = "") -> Path:
    """y = x + 1 for 8 floats, with a call to the C library for each."""
    import tvm
    from tvm.script import from_source

    mod = from_source(f"""
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        T.func_attr({{"tirx.noalias": True}})
        for i in range(8):
            with T.sblock("add"):
                v = T.axis.spatial(8, i)
                {call or "T.evaluate(0)"}
                y[v] = x[v] + T.float32(1)
""")
    ((_, result),) = builder(context, folder).build([tvm.ir.save_json(mod)], '{"kind": "llvm"}')
    assert isinstance(result, Path), result
    return result


@pytest.fixture
def runner(context: ForkServerContext) -> Iterator[LocalRunner]:
    runner = LocalRunner(context, config=(2, 3, 0), timeout_s=1.5, threads=1)
    yield runner
    runner.close()


@pytest.fixture
def racing(context: ForkServerContext) -> Iterator[LocalRunner]:
    runner = LocalRunner(context, config=(2, 1, 100), timeout_s=30.0, threads=1)
    yield runner
    runner.close()


def test_it_measures_each_repeat(context: ForkServerContext, runner: LocalRunner, tmp_path: Path) -> None:
    path = built(context, tmp_path)
    timing = runner.run(path, "cpu", ARGUMENTS)
    assert isinstance(timing, Timing)
    assert len(timing.run_secs) == 3
    assert all(0 < second < 1 for second in timing.run_secs)
    assert not timing.short
    assert not path.exists()


def test_it_measures_slow_candidates_briefly(context: ForkServerContext, racing: LocalRunner, tmp_path: Path) -> None:
    sleeps = 'T.evaluate(T.call_extern("int32", "usleep", 2000))'
    timing = racing.run(built(context, tmp_path, sleeps), "cpu", ARGUMENTS, limit_s=1e-3)
    assert isinstance(timing, Timing)
    assert timing.short
    assert len(timing.run_secs) > 1
    assert min(timing.run_secs) > 8 * 2e-3, "it sleeps for each of 8 elements"


def test_it_measures_fast_candidates_at_full_length(
    context: ForkServerContext, racing: LocalRunner, tmp_path: Path
) -> None:
    timing = racing.run(built(context, tmp_path), "cpu", ARGUMENTS, limit_s=1.0)
    assert isinstance(timing, Timing)
    assert (timing.short, len(timing.run_secs)) == (False, 1)


def test_it_races_only_if_that_saves_time(context: ForkServerContext, runner: LocalRunner, tmp_path: Path) -> None:
    timing = runner.run(built(context, tmp_path), "cpu", ARGUMENTS, limit_s=1e-12)
    assert isinstance(timing, Timing)
    assert (timing.short, len(timing.run_secs)) == (False, 3)


@pytest.mark.parametrize(
    ("call", "failure"),
    [
        (
            'T.evaluate(T.call_extern("int32", "abort"))',
            Failure("run", "The run process was killed by SIGABRT (Aborted)."),
        ),
        (
            'T.evaluate(T.call_extern("int32", "pause"))',
            Failure("run_timeout", "Took longer than 1.5 s to run, and was stopped."),
        ),
    ],
)
def test_it_survives_a_candidate_that_crashes_or_hangs(
    call: str, failure: Failure, context: ForkServerContext, runner: LocalRunner, tmp_path: Path
) -> None:
    assert runner.run(built(context, tmp_path, call), "cpu", ARGUMENTS) == failure
    assert isinstance(runner.run(built(context, tmp_path), "cpu", ARGUMENTS), Timing)


def test_it_says_why_a_candidate_cant_be_run(context: ForkServerContext, runner: LocalRunner, tmp_path: Path) -> None:
    path = built(context, tmp_path)
    wrong = runner.run(path, "cpu", [ARGUMENTS[0], ["TENSOR", "float32", [9]]])
    assert isinstance(wrong, Failure)
    assert wrong.kind == "run"
    assert "shape" in wrong.text
    assert "Traceback" not in wrong.text
