"""Schedules with tiles in registers compute the same as the function, and are offered where they can be."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.running import Engine, options, start
from tests.tuning.engines.sketches import ARM, AVX2, AVX512, candidate, computed, marked
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Finished

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

Layer = Callable[[Any], Any]


def weights(*shape: int, dtype: str = "float32") -> Any:
    from tvm import relax

    return relax.const(np.random.default_rng(1).standard_normal(shape, dtype="float32").astype(dtype))


def conv(
    shape: tuple[int, ...], filters: int, kernel: int, *, layout: str = "NHWC", dtype: str = "float32", **attrs: Any
) -> tuple[tuple[int, ...], Layer]:
    """With padding, a bias and a ReLU."""
    from tvm.relax import op

    channels = shape[layout.index("C")] // attrs.get("groups", 1)
    last = layout == "NHWC"
    extents = (kernel, kernel, channels, filters) if last else (filters, channels, kernel, kernel)
    names = {"data_layout": layout, "kernel_layout": "HWIO" if last else "OIHW"}

    def layer(x: Any) -> Any:
        y = op.nn.conv2d(x, weights(*extents, dtype=dtype), padding=kernel // 2, **names, **attrs)
        return op.nn.relu(op.add(y, weights(filters, *(() if last else (1, 1)), dtype=dtype)))

    return shape, layer


def dense(rows: int, inputs: int, outputs: int) -> tuple[tuple[int, ...], Layer]:
    from tvm.relax import op

    return (1, rows, inputs), lambda x: op.add(op.matmul(x, weights(inputs, outputs)), weights(outputs))


def turned(heads: int, rows: int, width: int) -> tuple[tuple[int, ...], Layer]:
    """A matrix product whose outputs are divided among heads."""
    from tvm.relax import op

    def layer(x: Any) -> Any:
        split = op.reshape(op.matmul(x, weights(width, heads * 16)), (1, rows, heads, 16))
        return op.permute_dims(split, (0, 2, 1, 3))

    return (1, rows, width), layer


def attention(heads: int, rows: int, width: int) -> tuple[tuple[int, ...], Layer]:
    """Each head's rows by its own columns, which aren't constant."""
    from tvm.relax import op

    return (heads, rows, width), lambda x: op.matmul(x, op.permute_dims(x, (0, 2, 1)))


def of_columns(heads: int, rows: int, width: int) -> tuple[tuple[int, ...], Layer]:
    """Each head's columns by all columns, so neighbours in memory belong to different sums in both factors."""
    from tvm.relax import op

    return (heads, rows, width), lambda x: op.matmul(op.permute_dims(x, (0, 2, 1)), x)


def task(network: tuple[tuple[int, ...], Layer], target: dict[str, Any], dtype: str = "float32") -> Any:
    """The network's task with the most operations, as a module of one function."""
    from tvm import relax
    from tvm.s_tir.analysis import estimate_tir_flops
    from tvm.target import Target

    from tuning.engines.networks import extraction

    shape, layer = network
    block, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, dtype))
    with block.function("main", [x]):
        with block.dataflow():
            output = block.emit_output(block.normalize(layer(x)))
        block.emit_func_output(output)
    tasks = extraction.extract(extraction.legalized(block.get(), Target(target)), Target(target))
    return max((one.dispatched[0] for one in tasks), key=estimate_tir_flops)


sketches = partial(marked, "registers")
"""Those with tiles in registers, and TVM's context of the task."""


NETWORKS: dict[str, Callable[[], tuple[tuple[int, ...], Layer]]] = {
    "convolution": lambda: conv((1, 8, 12, 16), 48, 3),
    "strided": lambda: conv((2, 9, 9, 3), 32, 5, strides=2),
    "pointwise": lambda: conv((1, 7, 7, 24), 40, 1),
    "depthwise": lambda: conv((1, 10, 10, 32), 32, 3, groups=32),
    "depthwise, no padding": lambda: conv((1, 10, 10, 32), 32, 1, groups=32),
    "channels first": lambda: conv((1, 6, 16, 16), 32, 3, layout="NCHW"),
    "channels first, narrow": lambda: conv((1, 16, 7, 7), 32, 3, layout="NCHW"),
    "channels first, pointwise": lambda: conv((1, 24, 12, 16), 32, 1, layout="NCHW"),
    "channels first, pointwise, narrow": lambda: conv((1, 24, 14, 14), 32, 1, layout="NCHW"),
    "channels first, pointwise, strided": lambda: conv((1, 24, 15, 15), 32, 1, layout="NCHW", strides=2),
    "product": lambda: dense(12, 20, 64),
    "one row": lambda: dense(1, 40, 48),
    "transposed": lambda: turned(4, 12, 24),
    "attention": lambda: attention(2, 16, 8),
    "of columns": lambda: of_columns(24, 64, 16),
    "product, padded": lambda: dense(37, 20, 64),
    "transposed, padded": lambda: turned(4, 37, 24),
    "attention, padded": lambda: attention(2, 19, 8),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_sketch_computes_the_same(name: str) -> None:
    host = {"kind": "llvm", "num-cores": 2}
    mod = task(NETWORKS[name](), host)
    expected = computed(mod, host)
    tiled, context = sketches(mod, host)
    assert tiled
    for nth, sketch in enumerate(tiled):
        np.testing.assert_allclose(computed(candidate(sketch, context, nth + 1), host), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("target", "register"), [(AVX512, r"%zmm\d+"), (AVX2, r"%ymm\d+"), (ARM, r"v\d+\.4s")], ids=["512", "256", "128"]
)
def test_sums_stay_in_the_cpus_registers(target: dict[str, Any], register: str) -> None:
    import tvm
    from tvm.target import Target

    tiled, context = sketches(task(NETWORKS["product"](), target), target)
    for sketch in tiled:
        library = tvm.compile(candidate(sketch, context, 1), Target(target))
        text = str(library.mod.inspect_source("asm"))
        sums = re.findall(r"\b(?:vfmadd\w+ps|fmla)\s+(.*)", text)
        assert sums
        assert all(re.search(register, operands) for operands in sums), "whole vectors"
        spilled = [operands for operands in sums if re.search(r"\bsp\b|rsp", operands)]
        assert len(spilled) <= len(sums) / 20, "LLVM may read some factors too early"


def primitives(sketch: Any, name: str) -> list[Any]:
    return [one for one in sketch.trace.insts if str(one.kind.name) == name]


@pytest.mark.parametrize(
    ("name", "some"),
    [
        ("channels first, pointwise", True),
        ("channels first, pointwise, narrow", True),
        ("of columns", True),
        ("channels first", False),
        ("pointwise", False),
        ("depthwise, no padding", False),
        ("product", False),
        ("one row", False),
    ],
)
def test_data_that_would_be_read_from_far_apart_is_packed(name: str, some: bool) -> None:
    """In NCHW a sum over channels takes a number of each plane; what has been padded is a copy already."""
    tiled, _ = sketches(task(NETWORKS[name](), AVX2), AVX2)
    assert any(primitives(sketch, "CacheRead") for sketch in tiled) == some


def test_tiles_that_are_stored_by_rows_have_several() -> None:
    """In NCHW with vectors of filters, or each number would be stored into another plane."""
    tiled, _ = sketches(task(NETWORKS["channels first, pointwise"](), AVX2), AVX2)
    by_rows = [sketch for sketch in tiled if primitives(sketch, "TransformLayout")]
    assert by_rows
    for sketch in by_rows:
        heights, _ = primitives(sketch, "SampleCategorical")[0].attrs
        assert min(map(int, heights)) >= 4


def test_they_are_offered_only_for_sums_of_products_of_whole_vectors() -> None:
    from tvm.relax import op

    assert sketches(task(dense(8, 8, 24), AVX512), AVX512)[0], "three halves of a vector"
    assert not sketches(task(dense(8, 8, 20), AVX512), AVX512)[0]
    pooled = ((1, 8, 8, 32), lambda x: op.nn.max_pool2d(x, (2, 2), strides=2, layout="NHWC"))
    assert not sketches(task(pooled, AVX512), AVX512)[0]
    half = task(conv((1, 8, 8, 16), 32, 3, dtype="float16"), AVX512, "float16")
    assert not sketches(half, AVX512)[0]
    grouped = task(conv((1, 8, 8, 32), 32, 3, groups=2), AVX512)
    assert not sketches(grouped, AVX512)[0]


def test_stock_rules_can_be_had() -> None:
    mod = task(NETWORKS["product"](), AVX512)
    assert sketches(mod, AVX512, "tvm")[0] == []
    gpu = {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
    from tvm.target import Target

    from tuning.engines.meta_schedule.spaces import create_space

    assert create_space(Options(), Target(gpu)).sch_rules is None, "TVM takes those of the target"


@pytest.mark.parametrize(
    ("target", "known"),
    [
        (AVX512, (16, 32)),
        (AVX2, (8, 16)),
        ({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"}, (4, 16)),
        (ARM, (4, 32)),
        ({"kind": "llvm", "mtriple": "riscv64-linux-gnu"}, None),
        ({"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}, None),
    ],
)
def test_registers_are_those_of_the_target(target: dict[str, Any], known: tuple[int, int] | None) -> None:
    from tvm.target import Target

    from tuning.engines.targets.registers import registers

    assert registers(Target(target)) == known


@pytest.mark.parametrize("rules", ["extended", "tvm"])
def test_a_run_says_whether_it_has_them(rules: str, tmp_path: Path) -> None:
    given = start(tmp_path / "work", trials_budget=8, options=options(schedule_rules=rules))
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert ("Register tiles are among the schedules of 1 of 1 tasks." in engine.console.read_text()) == (
        rules == "extended"
    )
    assert any("registers" in str(trial.record) for trial in engine.trials) == (rules == "extended")


def test_a_search_begins_with_them(tmp_path: Path) -> None:
    given = start(
        tmp_path / "work", trials_budget=6, options=options(strategy="evolutionary", trials_per_batch=6), keep_best=6
    )
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert all("registers" in str(trial.record) for trial in engine.trials if trial.record)
