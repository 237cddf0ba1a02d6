"""Building for and measuring on a GPU whose driver is a stand-in: what becomes of CUDA's errors, with real workers and TVM."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.tuning.engines import gpu_stand_in
from tests.tuning.engines.gpu_stand_in import plan
from tuning.engines.measuring.local import LocalBuilder, LocalRunner
from tuning.engines.measuring.outcomes import Failure, Timing

pytestmark = [
    pytest.mark.tvm,
    pytest.mark.filterwarnings("default"),  # Warnings are TVM's own.
    pytest.mark.skipif(shutil.which("g++") is None, reason="no linker for the host's code"),
]
TARGET = '{"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024}'
ARGUMENTS = [["TENSOR", "float32", [64]], ["TENSOR", "float32", [64]]]
KERNEL = """
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.noalias": True})
        for block in T.thread_binding(2, thread="blockIdx.x"):
            for thread in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("add"):
                    v = T.axis.spatial(64, block * 32 + thread)
                    y[v] = x[v] + T.float32(1)
"""


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The stand-in's folder. A fork server that starts from now on finds it."""
    folder = tmp_path_factory.mktemp("gpu")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in gpu_stand_in.install(folder).items():
            patch.setenv(name, value)
        yield folder


@pytest.fixture(scope="module")
def context(gpu: Path) -> Iterator[ForkServerContext]:
    assert gpu.is_dir()
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # Another module's doesn't know the stand-in.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["tests.tuning.engines.preloaded"])
    yield server
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def library(context: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel as the builder makes it on a machine with a GPU."""
    import tvm
    from tvm.script import from_source

    folder = tmp_path_factory.mktemp("built") / "artifacts"
    builder = LocalBuilder(context, folder, max_workers=1, timeout_s=120.0, suffix=".so")
    ((_, built),) = builder.build([tvm.ir.save_json(from_source(KERNEL))], TARGET)
    assert isinstance(built, Path), built
    return built


@pytest.fixture
def candidate(library: Path, tmp_path: Path) -> Callable[[], Path]:
    """Makes copies of the library: runners delete what they have measured."""
    return lambda: Path(shutil.copy(library, tmp_path / "candidate.so"))


@pytest.fixture
def runner(context: ForkServerContext) -> Iterator[LocalRunner]:
    runner = LocalRunner(context, config=(2, 3, 0), timeout_s=30.0, threads=None)
    yield runner
    runner.close()


def run(runner: LocalRunner, candidate: Callable[[], Path]) -> Timing | Failure:
    return runner.run(candidate(), "cuda", ARGUMENTS)


def test_the_code_of_a_machine_with_a_gpu_is_compiled_when_it_is_built(library: Path) -> None:
    assert b"code for the stand-in" in library.read_bytes()


def test_a_candidate_is_measured_on_the_gpu(gpu: Path, runner: LocalRunner, candidate: Callable[[], Path]) -> None:
    plan(gpu, "fine")
    timing = run(runner, candidate)
    assert isinstance(timing, Timing), timing
    assert len(timing.run_secs) == 3
    assert all(seconds > 0 for seconds in timing.run_secs)
    assert (gpu / "loads").stat().st_size > 0, "the kernel was loaded by the driver"


@pytest.mark.parametrize(
    ("error", "text"),
    [("illegal", "an illegal memory access was encountered"), ("failure", "unspecified launch failure")],
)
def test_a_kernels_error_fails_only_its_candidate(
    gpu: Path, runner: LocalRunner, candidate: Callable[[], Path], error: str, text: str
) -> None:
    """The driver of a process that such an error has occurred in answers every later call with it."""
    plan(gpu, error, "fine")
    failed, fine = run(runner, candidate), run(runner, candidate)
    assert isinstance(failed, Failure)
    assert failed.kind == "run"
    assert text in failed.text
    assert isinstance(fine, Timing), fine


def test_a_crashing_driver_fails_only_its_candidate(
    gpu: Path, runner: LocalRunner, candidate: Callable[[], Path]
) -> None:
    plan(gpu, "crash", "fine")
    assert run(runner, candidate) == Failure("run", "The run process was killed by SIGABRT (Aborted).")
    assert isinstance(run(runner, candidate), Timing)


def test_a_hanging_kernel_is_stopped_at_the_timeout(
    gpu: Path, context: ForkServerContext, candidate: Callable[[], Path]
) -> None:
    plan(gpu, "hang", "fine")
    runner = LocalRunner(context, config=(1, 1, 0), timeout_s=5.0, threads=None)
    try:
        assert run(runner, candidate) == Failure("run_timeout", "Took longer than 5 s to run, and was stopped.")
        assert isinstance(run(runner, candidate), Timing)
    finally:
        runner.close()


@pytest.mark.parametrize(
    ("trouble", "text"), [("full", "out of memory"), ("absent", "no CUDA-capable device is detected")]
)
def test_it_says_what_is_wrong_with_the_gpu(
    gpu: Path, runner: LocalRunner, candidate: Callable[[], Path], trouble: str, text: str
) -> None:
    plan(gpu, trouble)
    failed = run(runner, candidate)
    assert isinstance(failed, Failure)
    assert failed.kind == "run"
    assert text in failed.text
    plan(gpu, "fine")
    assert isinstance(run(runner, candidate), Timing), "it is there again"
