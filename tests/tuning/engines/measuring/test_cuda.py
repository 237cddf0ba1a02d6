"""Building for a GPU on a machine without one: target, schedules, CUDA source, and compiling it with `nvcc`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tuning.engines import networks
from tuning.engines.measuring import workers
from tuning.engines.networks import extraction
from tuning.engines.targets import cuda, intrinsics, resolving
from tuning.engines.wire.protocol import NetworkSpec
from tuning.engines.wire.target_fields import TargetRefused

pytestmark = [pytest.mark.tvm, pytest.mark.rare, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
A100 = "nvidia/nvidia-a100"


@pytest.fixture(scope="module")
def candidate() -> Any:
    """A random schedule of a 64 × 64 matrix product, as the search hands it to the builder."""
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    intrinsics.load("cuda")  # An earlier test may have loaded only the CPU's.
    target = Target(resolving.resolve(A100, remote=True).target)
    mod = extraction.legalized(networks.build(NetworkSpec("matmul", {"n": 64})).mod, target)
    (task,) = extraction.extract(mod, target)
    context = ms.TuneContext(
        mod=task.dispatched[0],
        target=target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        task_name="matmul",
        num_threads=1,
        rand_state=1,
    )
    context.pre_tuning(
        max_trials=4, num_trials_per_iter=4, design_spaces=context.generate_design_space(), cost_model=None
    )
    return context.generate_measure_candidates()[0].sch.mod


def test_it_builds_for_an_a100_without_one(candidate: Any, tmp_path: Path) -> None:
    import tvm

    if shutil.which("g++") is None:
        pytest.skip("no linker for the host's code")
    path = tmp_path / "0-0.so"
    workers.build(tvm.ir.save_json(candidate), json.dumps(resolving.resolve(A100, remote=True).target), str(path))
    assert path.stat().st_size > 0
    assert b"__global__" in path.read_bytes() or tvm.cuda(0).exist


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc isn't installed")
def test_nvcc_compiles_what_was_built(candidate: Any) -> None:
    import tvm
    from tvm.support import nvcc

    if tvm.cuda(0).exist:
        pytest.skip("with a GPU, TVM compiles while it builds")
    built = tvm.tirx.build(candidate, target=tvm.target.Target(A100))
    (kernels,) = built.imports
    with tvm.target.Target(A100):
        fatbin = nvcc.compile_cuda(str(kernels.inspect_source()), target_format="fatbin", compiler="nvcc")
    assert bytes(fatbin)[:4] == b"\x50\xed\x55\xba"


def test_it_uses_the_compiler_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cuda.MODE, "")  # Restores the variable afterwards.
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/nvcc")
    cuda.choose_compiler()
    assert cuda.compiler() == "nvcc"
    monkeypatch.setenv(cuda.MODE, "nvrtc")
    assert cuda.compiler() == "nvrtc", "the user's choice comes first"


def test_a_gpu_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm

    class Gpu:
        exist = True

    monkeypatch.setattr(tvm, "cuda", lambda _index: Gpu)
    monkeypatch.setattr(cuda, "compiler", lambda: None)
    with pytest.raises(TargetRefused, match="no CUDA compiler: install nvcc"):
        resolving.resolve(A100)
