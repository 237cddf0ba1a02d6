"""Schedules of Winograd's algorithm compute the same as the function, in parts where these pay, and sum in the CPU's registers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.sketches import ARM, AVX2, AVX512, candidate, computed, design_space
from tuning.engines.wire.options.meta_schedule import Options

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
HOST = {"kind": "llvm", "num-cores": 2}
ACTIVATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda x, op: op.nn.relu(x),
    "swish": lambda x, op: op.multiply(x, op.sigmoid(x)),
    "maximum": lambda x, op: op.maximum(x, op.add(x, x)),
}


def layer(
    size: int, channels: int, filters: int, *, batch: int = 1, layout: str = "NHWC", activation: str = "relu"
) -> Any:
    """A network of one convolution with padding, a bias and an activation."""
    from tvm import relax
    from tvm.relax import op

    last = layout == "NHWC"
    random = np.random.default_rng(1)
    kernel, bias = (
        (3, 3, channels, filters) if last else (filters, channels, 3, 3),
        (filters, *(() if last else (1, 1))),
    )
    block = relax.BlockBuilder()
    extents = {"N": batch, "H": size, "W": size, "C": channels}
    x = relax.Var("x", relax.TensorType([extents[axis] for axis in layout], "float32"))
    with block.function("main", [x]):
        with block.dataflow():
            weights, added = (relax.const(random.standard_normal(shape, dtype="float32")) for shape in (kernel, bias))
            order = "HWIO" if last else "OIHW"
            y = block.emit(op.nn.conv2d(x, weights, padding=1, data_layout=layout, kernel_layout=order))
            output = block.emit_output(ACTIVATIONS[activation](block.emit(op.add(y, added)), op))
        block.emit_func_output(output)
    return block.get()


def task(mod: Any, target: dict[str, Any], *, in_parts: bool = True) -> Any:
    """The convolution by Winograd's algorithm, as a module of one function."""
    from tvm.target import Target

    from tuning.engines.networks import algorithms, extraction

    extracted = extraction.extract(extraction.legalized(mod, Target(target)), Target(target))
    (rival,) = algorithms.rivals(mod, Target(target), extracted, in_parts=in_parts)
    return rival.task.dispatched[0]


def sketches(mod: Any, target: dict[str, Any]) -> tuple[list[Any], Any]:
    return design_space(mod, target, Options())


def drawn(sketch: Any, context: Any, seed: int = 1) -> Any:
    """A candidate. TVM's verification can't follow tiles that are counted by one axis."""
    return candidate(sketch, context, seed, verified=False)


def parts(sketch: Any) -> int:
    """How many parts it goes through; 0 if one step comes after the other."""
    steps = [sketch.get_loops(sketch.get_sblock(name))[0] for name in ("winograd_input", "winograd_output")]
    first, last = map(sketch.get, steps)
    return int(first.extent) if first.loop_var.same_as(last.loop_var) else 0


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("in_parts", [True, False], ids=["in parts", "step by step"])
@pytest.mark.parametrize(
    ("size", "channels", "batch"),
    [
        pytest.param(40, 16, 1, id="large", marks=pytest.mark.rare),
        pytest.param(10, 32, 2, id="batch", marks=pytest.mark.rare),
        pytest.param(8, 32, 1, id="small"),
    ],
)
def test_every_sketch_computes_the_same(size: int, channels: int, batch: int, in_parts: bool, layout: str) -> None:
    mod = task(layer(size, channels, 48, batch=batch, layout=layout), HOST, in_parts=in_parts)
    expected = computed(mod, HOST)
    found, context = sketches(mod, HOST)
    assert found
    for nth, sketch in enumerate(found):
        np.testing.assert_allclose(computed(drawn(sketch, context, nth + 1), HOST), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("activation", ["swish", "maximum"])
def test_an_activation_may_read_a_value_twice(activation: str) -> None:
    mod = task(layer(40, 16, 16, activation=activation), HOST)
    expected = computed(mod, HOST)
    found, context = sketches(mod, HOST)
    assert {parts(sketch) > 0 for sketch in found} == {True, False}
    for nth, sketch in enumerate(found):
        np.testing.assert_allclose(computed(drawn(sketch, context, nth + 1), HOST), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("size", "channels", "counts"),
    [(56, 64, {7, 14, 0}), (128, 32, {32, 16, 0}), (28, 128, {0}), (14, 256, {0})],
    ids=str,
)
def test_layers_with_few_weights_can_be_computed_in_parts(size: int, channels: int, counts: set[int]) -> None:
    """So the transformed inputs stay in a core's caches. The weights of others would be read too often."""
    found, _ = sketches(task(layer(size, channels, channels), AVX2), AVX2)
    assert {parts(sketch) for sketch in found} == counts
    step_by_step, _ = sketches(task(layer(size, channels, channels), AVX2, in_parts=False), AVX2)
    assert {parts(sketch) for sketch in step_by_step} == {0}


@pytest.mark.parametrize(
    ("target", "register", "transformed"),
    [
        pytest.param(AVX512, r"%zmm\d+", 16, id="512"),
        pytest.param(AVX2, r"%ymm\d+", 8, id="256", marks=pytest.mark.rare),
        pytest.param(ARM, r"v\d+\.4s", 16, id="128", marks=pytest.mark.rare),
    ],
)
def test_sums_stay_in_the_cpus_registers(target: dict[str, Any], register: str, transformed: int) -> None:
    import tvm
    from tvm.target import Target

    mod = task(layer(40, 32, 64), target)
    assert f"T.vectorized(T.int64({transformed}))" in str(mod.script()), "the transforms, too"
    found, context = sketches(mod, target)
    assert any(map(parts, found))
    for sketch in found:
        library = tvm.compile(drawn(sketch, context), Target(target))
        sums = re.findall(r"\b(?:vfmadd231ps|fmla)\s+(.*)", str(library.mod.inspect_source("asm")))
        whole = [operands for operands in sums if re.search(register, operands)]
        assert len(whole) == len(sums) > 0
        spilled = [operands for operands in sums if re.search(r"\bsp\b|rsp", operands)]
        assert len(spilled) <= len(sums) / 4, "transforms keep what they need again on the stack"


def test_each_core_gets_parts_or_none_does() -> None:
    mod = layer(56, 64, 64)
    many = AVX2 | {"num-cores": 7}
    assert max(parts(sketch) for sketch in sketches(task(mod, many), many)[0]) == 14
    more = AVX2 | {"num-cores": 64}
    assert {parts(sketch) for sketch in sketches(task(mod, more), more)[0]} == {0}


def test_runs_of_earlier_versions_keep_their_functions() -> None:
    """Or their records wouldn't fit."""
    from tvm.s_tir.meta_schedule.utils import shash2hex

    layers = (task(layer(16, 64, 64, layout=layout), AVX2, in_parts=False) for layout in ("NHWC", "NCHW"))
    assert [shash2hex(mod) for mod in layers] == ["0xa8909148c266518c", "0x33e10fa883fd1667"]
