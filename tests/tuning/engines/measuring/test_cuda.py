"""Building for a GPU on a machine without one: target, schedules, CUDA C++, and compiling it to machine code with `nvcc`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.toolkit import needs_nvcc
from tuning.engines import networks
from tuning.engines.assembly import needs
from tuning.engines.measuring import workers
from tuning.engines.networks import extraction
from tuning.engines.targets import cuda, intrinsics, kernels, resolving
from tuning.engines.wire.protocol import NetworkSpec
from tuning.engines.wire.target_fields import TargetRefused

pytestmark = [pytest.mark.tvm, pytest.mark.rare, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
A100 = "nvidia/nvidia-a100"


Candidates = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def candidates() -> Candidates:
    """Makes a random schedule of a 64 × 64 matrix product of a data type for an architecture, as the search hands it to the builder."""
    from tvm.s_tir import meta_schedule as ms

    intrinsics.load("cuda")  # An earlier test may have loaded only the CPU's.

    def make(arch: str, dtype: str) -> Any:
        target = target_of(arch)
        network = NetworkSpec("matmul", {"n": 64, "dtype": dtype})
        mod = extraction.legalized(networks.build(network).mod, target)
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

    return make


def target_of(arch: str) -> Any:
    """An A100's limits for another architecture."""
    from tvm.target import Target

    return Target({**resolving.resolve(A100, remote=True).target, "arch": arch})


def source_of(mod: Any, target: Any) -> str:
    import tvm

    with kernels.without_compiling():
        (module,) = tvm.tirx.build(mod, target=target).imports
    return str(module.inspect_source())


def test_it_builds_for_an_a100_without_one(candidates: Candidates, tmp_path: Path) -> None:
    import tvm

    if shutil.which("g++") is None:
        pytest.skip("no linker for the host's code")
    path, mod = tmp_path / "0-0.so", candidates("sm_80", "float32")
    workers.build(tvm.ir.save_json(mod), json.dumps(resolving.resolve(A100, remote=True).target), str(path))
    assert path.stat().st_size > 0
    assert b"__global__" in path.read_bytes() or tvm.cuda(0).exist


@pytest.mark.parametrize(
    ("arch", "dtype", "tensor_cores"),
    [
        ("sm_70", "float16", False),
        ("sm_75", "float16", True),
        ("sm_80", "float16", True),
        ("sm_90", "float16", True),
        ("sm_120", "float16", True),
        ("sm_80", "float32", False),
    ],
)
def test_float16_uses_tensor_cores_where_tvms_rules_do(
    candidates: Candidates, arch: str, dtype: str, tensor_cores: bool
) -> None:
    source = source_of(candidates(arch, dtype), target_of(arch))
    assert ("nvcuda::wmma::mma_sync(" in source) == tensor_cores


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("dtype", "instruction"), [("float16", "HMMA"), ("float32", "FFMA")])
def test_nvcc_compiles_candidates(candidates: Candidates, arch: str, dtype: str, instruction: str) -> None:
    needs_nvcc()
    target = target_of(arch)
    text = kernels.ptx(source_of(candidates(arch, dtype), target), target)
    assert f".target {arch}" in text
    assert ("wmma.mma.sync" in text) == (dtype == "float16")
    assembled = kernels.assembled(text, arch)
    assert needs(assembled.report)["main_kernel"].registers > 0
    assert assembled.sass is None or instruction in assembled.sass


def test_it_uses_the_compiler_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cuda.MODE, "")  # Restores the variable afterwards.
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(shutil, "which", lambda _name, path=None: "/usr/bin/nvcc")
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
