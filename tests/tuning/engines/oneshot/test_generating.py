"""What is made of a record's schedule, by TVM itself and for CPUs that needn't be this machine's."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tuning.engines.oneshot.generating import generate
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.showing import Listing
from tuning.logs.meta_schedule import last_records

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

SKYLAKE = {"kind": "llvm", "mcpu": "skylake-avx512", "mtriple": "x86_64-linux-gnu"}
CORTEX = {"kind": "llvm", "mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}


def record(target: dict[str, Any], lanes: int) -> str:
    """A matrix product whose two innermost loops are four unrolled rows and a vector of so many numbers."""
    import tvm
    from tvm import s_tir, te
    from tvm.s_tir import meta_schedule as ms

    n = 64
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    schedule = s_tir.Schedule(te.create_prim_func([a, b, c]))
    block = schedule.get_sblock("C")
    i, j, k_loop = schedule.get_loops(block)
    rows, inner_rows = schedule.split(i, [None, 4])
    columns, vector = schedule.split(j, [None, lanes])
    schedule.reorder(rows, columns, k_loop, inner_rows, vector)
    schedule.unroll(inner_rows)
    schedule.vectorize(vector)
    schedule.decompose_reduction(block, k_loop)
    with TemporaryDirectory() as folder:
        database = ms.database.JSONDatabase(work_dir=folder)
        workload = database.commit_workload(tvm.IRModule({"main": te.create_prim_func([a, b, c])}))
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
    with pytest.raises(Refused, match="TVM can't apply its"):
        generate(record(SKYLAKE, 16).replace('"Split"', '"Splat"'))
