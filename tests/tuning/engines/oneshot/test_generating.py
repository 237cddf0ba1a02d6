"""What is made of a record's schedule, by TVM itself and for CPUs and GPUs that needn't be this machine's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from tests.toolkit import needs_nvcc
from tuning.engines.oneshot.generating import generate
from tuning.engines.targets import cuda
from tuning.engines.wire.compiling import cuda_tool
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.showing import Generated, Kernels, Listing, Occupancy, Question
from tuning.logs.meta_schedule import last_records

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

SKYLAKE = {"kind": "llvm", "mcpu": "skylake-avx512", "mtriple": "x86_64-linux-gnu"}
CORTEX = {"kind": "llvm", "mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}


AMPERE = {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024}
ROOT = Path(__file__).resolve().parents[4]


def product(n: int) -> Any:
    """A matrix product."""
    from tvm import te

    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return te.create_prim_func([a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")])


def record(target: dict[str, Any], lanes: int) -> str:
    """Its two innermost loops are four unrolled rows and a vector of so many numbers."""
    from tvm import s_tir

    schedule = s_tir.Schedule(product(64))
    block = schedule.get_sblock("C")
    i, j, k_loop = schedule.get_loops(block)
    rows, inner_rows = schedule.split(i, [None, 4])
    columns, vector = schedule.split(j, [None, lanes])
    schedule.reorder(rows, columns, k_loop, inner_rows, vector)
    schedule.unroll(inner_rows)
    schedule.vectorize(vector)
    schedule.decompose_reduction(block, k_loop)
    return recorded(schedule, 64, target)


def gpu_record(target: dict[str, Any], tile: int, threads: int) -> str:
    """Each thread computes a square tile in registers; a block has `threads` × `threads` of them."""
    from tvm import s_tir

    n = tile * threads * 2
    schedule = s_tir.Schedule(product(n))
    block = schedule.get_sblock("C")
    kept = schedule.cache_write(block, 0, "local")
    loops = [schedule.split(loop, [None, threads, tile]) for loop in schedule.get_loops(block)[:2]]
    *_, k = schedule.get_loops(block)
    (i, i_thread, i_tile), (j, j_thread, j_tile) = loops
    schedule.reorder(i, j, i_thread, j_thread, k, i_tile, j_tile)
    for loop, axis in ((i, "blockIdx.y"), (j, "blockIdx.x"), (i_thread, "threadIdx.y"), (j_thread, "threadIdx.x")):
        schedule.bind(loop, axis)
    schedule.reverse_compute_at(kept, j_thread)
    for loop in (i_tile, j_tile, *schedule.get_loops(kept)[-2:]):
        schedule.unroll(loop)
    schedule.decompose_reduction(block, k)
    return recorded(schedule, n, target)


def recorded(schedule: Any, n: int, target: dict[str, Any]) -> str:
    """A schedule of `product(n)` as a record."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    with TemporaryDirectory() as folder:
        database = ms.database.JSONDatabase(work_dir=folder)
        workload = database.commit_workload(tvm.IRModule({"main": product(n)}))
        made = ms.database.TuningRecord(schedule.trace, workload, [1e-3], tvm.target.Target(target))
        database.commit_tuning_record(made)
        return last_records(Path(folder), 1)[0]


def listings(text: str) -> dict[str, Listing]:
    return {one.kind: one for one in generate(text).listings}


@pytest.mark.parametrize(
    ("target", "lanes", "bits", "fma"), [(SKYLAKE, 16, 512, "vfmadd"), (CORTEX, 4, 128, "fmla")], ids=["x86", "aarch64"]
)
def test_the_hot_loop_is_the_reductions(target: dict[str, Any], lanes: int, bits: int, fma: str) -> None:
    found = listings(record(target, lanes))
    assert list(found) == ["tir", "llvm", "asm"]
    assert "T.prim_func" in found["tir"].text
    assert f'target triple = "{target["mtriple"]}"' in found["llvm"].text
    hot = found["asm"].hot_loop
    assert hot
    assert (hot.bits, hot.fma % 4, hot.arithmetic, hot.stores, hot.stack) == (bits, 0, 0, 0, 0)
    lines = found["asm"].text.splitlines()[hot.first - 1 : hot.last]
    assert sum(line.strip().startswith(fma) for line in lines) == hot.fma > 0
    assert hot.instructions == len([line for line in lines if line.startswith("\t") and not line.startswith("\t.")])


def test_it_says_why_a_record_cannot_be_read() -> None:
    with pytest.raises(
        Refused, match="It can't be used: its instruction 2 is of a kind that isn't known here: 'Splat'"
    ):
        generate(record(SKYLAKE, 16).replace('"Split"', '"Splat"'))


def test_without_a_compiler_it_shows_the_source_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cuda.MODE, raising=False)
    monkeypatch.setattr("tuning.engines.wire.compiling.has_nvrtc", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda _name, path=None: None)
    made = generate(gpu_record(AMPERE, tile=2, threads=8))
    assert [one.kind for one in made.listings] == ["tir", "cuda"]
    assert "__launch_bounds__(64) main_kernel(" in made.listings[1].text
    assert made.kernels is None
    assert "install the package nvidia-cuda-nvcc with nvidia-cuda-cccl and a C++ compiler (g++)" in made.missing[0]


def needed(made: Generated) -> Kernels:
    assert made.kernels, made.missing
    return made.kernels


def test_it_tells_what_ptxas_says_of_a_kernel() -> None:
    needs_nvcc()
    made = generate(gpu_record(AMPERE, tile=2, threads=8))
    (kernel,) = needed(made).kernels
    assert needed(made).arch == "sm_80"
    assert needed(made).assembler.startswith("ptxas ")
    assert (kernel.name, kernel.blocks, kernel.threads) == ("main_kernel", 4, 64)
    assert 4 <= kernel.registers <= 64
    assert (kernel.shared_bytes, kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0, 0)
    assert kernel.occupancy == Occupancy(32, 64, 64, kernel.occupancy.bounds if kernel.occupancy else [])
    found = {one.kind: one.text for one in made.listings}
    assert ".target sm_80" in found["ptx"]
    assert ".entry main_kernel(" in found["ptx"]
    assert ("sass" in found) == (cuda_tool("nvdisasm") is not None) != bool(made.missing)
    assert "FFMA" in found.get("sass", "FFMA")


@pytest.mark.rare
def test_what_is_spilled_is_counted() -> None:
    """1,024 threads have 64 registers each, and the tile alone needs more."""
    needs_nvcc()
    (kernel,) = needed(generate(gpu_record(AMPERE, tile=10, threads=32))).kernels
    assert kernel.registers == 64
    assert kernel.spill_store_bytes > 0
    assert kernel.spill_load_bytes > 0
    assert kernel.occupancy == Occupancy(1, 32, 64, ["registers"])


@pytest.mark.rare
def test_an_architecture_that_nvcc_does_not_know_is_said() -> None:
    needs_nvcc()
    made = generate(gpu_record({**AMPERE, "arch": "sm_35"}, tile=2, threads=8))
    assert [one.kind for one in made.listings] == ["tir", "cuda"]
    assert made.kernels is None
    assert made.missing[0].startswith("nvcc can't compile it for sm_35: nvcc fatal : ")


@pytest.mark.rare
def test_compilers_run_in_the_confined_process(tmp_path: Path) -> None:
    needs_nvcc()
    question = Question(records=[gpu_record(AMPERE, tile=2, threads=8)], memory_mb=4096, cpu_s=180)
    done = subprocess.run(
        [sys.executable, "-m", "tuning.engines.oneshot.generating"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        input=msgspec.json.encode(question),
        capture_output=True,
        check=True,
    )
    made = msgspec.json.decode(done.stdout.splitlines()[-1], type=Generated)
    assert needed(made).kernels[0].threads == 64
