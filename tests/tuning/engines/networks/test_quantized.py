"""What is quantized in a model is computed in integers, where the target's CPU can, and gives what ONNX Runtime gives."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.tuning.engines.quantized import Qdq
from tuning.engines.wire.inspecting import Question
from tuning.engines.wire.protocol import NetworkSpec

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
STEP = 0.05
"""Of the outputs. Values between two steps may be rounded either way, since sums of floats round differently."""
VNNI = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}


def target(**given: Any) -> Any:
    from tvm.target import Target

    return Target({**VNNI, **given})


def given(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(5).standard_normal(shape, dtype="float32")


def expected(network: NetworkSpec, data: Any) -> Any:
    """In floats, as the model says: optimized for an x86 CPU without VNNI, ONNX Runtime's sums of products of 8-bit integers saturate."""
    import onnxruntime

    assert network.file
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(network.file.path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": data})[0]


def computed(mod: Any, data: Any) -> Any:
    """By code for any CPU, since functions that aren't scheduled have no instruction of a special one."""
    import tvm
    from tvm import relax

    from tuning.engines.networks import extraction

    anywhere = tvm.target.Target({"kind": "llvm", "num-cores": 2})
    library = relax.build(extraction.legalized(mod, anywhere), anywhere)
    return relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()


def check(network: NetworkSpec, shape: tuple[int, ...], integers: dict[str, int], floats: dict[Any, int]) -> None:
    """With unsigned data as with signed data, results are those of ONNX Runtime but for rounding."""
    from tuning.engines import networks
    from tuning.engines.targets.dot_products import INSTRUCTIONS

    data = given(shape)
    right = expected(network, data)
    assert np.unique(right).size > 8, "enough of them are different"
    for instruction in INSTRUCTIONS[0], INSTRUCTIONS[-1]:
        built = networks.build(network, instruction=instruction)
        assert built.quantized
        assert built.quantized[:2] == (integers, floats)
        assert built.quantized.steps == (float(np.float32(STEP)),)
        off = np.abs(computed(built.mod, data) - right)
        assert off.max() <= 1.01 * STEP, instruction
        assert np.mean(off > STEP / 2) < 0.01, instruction


@pytest.mark.parametrize(
    ("data", "weights", "by_channel"),
    [("uint8", "int8", True), pytest.param("int8", "uint8", True, marks=pytest.mark.rare), ("int8", "int8", False)],
)
def test_products_of_matrices(tmp_path: Path, data: str, weights: str, *, by_channel: bool) -> None:
    """Neither inputs nor outputs are multiples of what an instruction takes, and 13 rows have no divisor."""
    model = Qdq((2, 13, 30), data)
    model.matmul(24, weights, by_channel=by_channel)
    model.apply("Relu")
    model.matmul(20, weights, by_channel=by_channel)
    check(model.saved(tmp_path / "model.onnx", (2, 13, 30)), (2, 13, 30), {"matmul": 2}, {})


@pytest.mark.parametrize("transposed", [False, True])
def test_layers_with_a_bias(tmp_path: Path, *, transposed: bool) -> None:
    model = Qdq((3, 64))
    model.gemm(32, transposed=transposed)
    model.apply("Relu")
    model.gemm(10, transposed=transposed, by_channel=False)
    check(model.saved(tmp_path / "model.onnx", (3, 64)), (3, 64), {"matmul": 2}, {})


@pytest.mark.parametrize(
    ("data", "kernel", "attributes"),
    [
        pytest.param("int8", 1, {"strides": [2, 2]}, marks=pytest.mark.rare),
        ("uint8", 3, {"pads": [0, 1, 2, 1], "strides": [2, 1]}),
        pytest.param("int8", 3, {"dilations": [2, 2], "pads": [1, 1, 1, 1]}, marks=pytest.mark.rare),
    ],
    ids=str,
)
def test_convolutions(tmp_path: Path, data: str, kernel: int, attributes: dict[str, Any]) -> None:
    """Padding is the zero point, which isn't 0."""
    shape = (2, 3, 11, 13)
    model = Qdq(shape, data)
    model.conv(20, kernel, **attributes)
    model.apply("Relu")
    model.conv(16, 1, by_channel=False)
    check(model.saved(tmp_path / "model.onnx", shape), shape, {"conv2d": 2}, {})


def test_what_has_no_integer_form_stays_in_floats_and_is_named(tmp_path: Path) -> None:
    shape = (1, 8, 9, 9)
    model = Qdq(shape)
    model.conv(8, group=8)
    model.conv(8)
    network = model.saved(tmp_path / "model.onnx", shape)
    check(network, shape, {"conv2d": 1}, {("conv2d", "its channels are in groups"): 1})


def product_of(second: Callable[[Qdq], str]) -> Qdq:
    model = Qdq((4, 8))
    model.quantized()
    weights = second(model)
    model.value = model.node("MatMul", model.value, weights)
    return model


def not_just_before(model: Qdq) -> str:
    model.apply("Abs")
    return model.weights((8, 4), axis=1)[0]


def not_constant(model: Qdq) -> str:
    return model.node("Transpose", model.value)


def not_quantized(model: Qdq) -> str:
    return model.const(np.ones((8, 4), "float32"))


def with_zero_point(model: Qdq) -> str:
    integers = model.const(model.random.integers(0, 255, (8, 4)).astype("uint8"))
    return model.node("DequantizeLinear", integers, model.const(np.float32(0.01)), model.const(np.uint8(100)))


def scaled_by_input(model: Qdq) -> str:
    return model.weights((8, 4), axis=0)[0]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (not_just_before, "its data isn't dequantized just before it"),
        (not_constant, "its weights aren't constant"),
        (not_quantized, "its weights aren't quantized"),
        (with_zero_point, "its weights have a zero point"),
        (scaled_by_input, "its weights don't have a scale for each output"),
    ],
)
def test_the_reason_is_told(tmp_path: Path, second: Callable[[Qdq], str], reason: str) -> None:
    from tuning.engines import networks
    from tuning.engines.targets.dot_products import instruction_of

    network = product_of(second).saved(tmp_path / "model.onnx", (4, 8))
    built = networks.build(network, instruction=instruction_of(target()))
    assert built.quantized
    assert built.quantized[:2] == ({}, {("matmul", reason): 1})


def test_the_report_is_a_sentence(tmp_path: Path) -> None:
    from tuning.engines import networks
    from tuning.engines.targets.dot_products import instruction_of

    model = Qdq((1, 8, 9, 9))
    model.conv(8, group=8)
    model.conv(8)
    network = model.saved(tmp_path / "model.onnx", (1, 8, 9, 9))
    told = str(networks.build(network, instruction=instruction_of(target())).quantized)
    assert told == (
        "1 of 2 quantized operators are computed in integers (1 conv2d). In floats: 1 conv2d: its channels are in groups."
    )
    reason = "no instructions for products of 8-bit integers are known of the target"
    told = str(networks.build(network, instruction=instruction_of(target(mcpu="znver3"))).quantized)
    assert told == f"0 of 2 quantized operators are computed in integers. In floats: 2 conv2d: {reason}."


@pytest.mark.parametrize(
    ("cpu", "named"),
    [
        ({"mcpu": "znver4"}, "dot_16x4_vnni"),
        ({"mcpu": "icelake-server"}, "dot_16x4_vnni"),
        ({"mcpu": "alderlake"}, "dot_8x4_avxvnni"),
        ({"mcpu": "skylake-avx512"}, None),
        ({"mcpu": "znver3"}, None),
        ({"mcpu": "neoverse-n1", "mtriple": "aarch64-linux-gnu"}, "dot_4x4_i8i8s32_sdot"),
        ({"mcpu": "cortex-a53", "mtriple": "aarch64-linux-gnu"}, None),
        ({"mcpu": "generic", "mtriple": "aarch64-linux-gnu", "mattr": ["+v8.2a", "+dotprod"]}, "dot_4x4_i8i8s32_sdot"),
    ],
    ids=str,
)
def test_the_instruction_is_that_of_the_targets_cpu(cpu: dict[str, Any], named: str | None) -> None:
    from tuning.engines.targets.dot_products import instruction_of

    found = instruction_of(target(**cpu))
    assert (found.intrinsic if found else None) == named


@pytest.mark.parametrize(
    ("cpu", "mnemonic", "registers"),
    [
        ({}, "vpdpbusd", "%zmm"),
        ({"mcpu": "alderlake"}, "vpdpbusd", "%ymm"),
        ({"mcpu": "neoverse-n1", "mtriple": "aarch64-linux-gnu"}, "sdot", "v"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["matmul", "conv2d"])
def test_what_is_scheduled_has_the_instruction(
    tmp_path: Path, kind: str, cpu: dict[str, Any], mnemonic: str, registers: str
) -> None:
    shape = (1, 16, 9, 9) if kind == "conv2d" else (16, 32)
    model = Qdq(shape)
    if kind == "conv2d":
        model.conv(32, pads=[1, 1, 1, 1])
    else:
        model.gemm(32)
    for code in scheduled(model.saved(tmp_path / "model.onnx", shape), target(**cpu), f"int8_{kind}"):
        lines = [line for line in code.splitlines() if mnemonic in line]
        assert lines
        assert all(registers in line for line in lines)


def scheduled(network: NetworkSpec, target: Any, kind: str) -> list[str]:
    """Assembly of random candidates for the task of that kind. As TVM compiles for any CPU, they aren't run."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.targets import intrinsics
    from tuning.engines.targets.dot_products import instruction_of

    intrinsics.load("llvm")
    importlib.import_module(f"{intrinsics.PACKAGE}.arm_cpu")  # Loading all takes 8 s of CPU.
    mod = networks.build(network, instruction=instruction_of(target)).mod
    (task,) = [one for one in extraction.extract(extraction.legalized(mod, target), target) if kind in one.task_name]
    context = ms.TuneContext(
        task.dispatched[0],
        target=target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    spaces = context.generate_design_space()
    context.pre_tuning(16, 4, spaces, ms.database.MemoryDatabase(), ms.CostModel.create("random"))
    candidates = context.generate_measure_candidates()
    assert len(candidates) == 4
    return [str(tvm.tirx.build(one.sch.mod, target=target).inspect_source("asm")) for one in candidates]


def test_between_convolutions_data_stays_as_they_take_it(tmp_path: Path) -> None:
    """Channels last and in 8 bits: what comes between them, in two branches, is fused with them or works on that."""
    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.targets.dot_products import instruction_of

    shape = (1, 3, 18, 18)
    model = Qdq(shape)
    model.conv(16, pads=[1, 1, 1, 1])
    model.apply("Relu")
    model.quantized()
    model.apply("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    model.quantized()
    skipped = model.value
    model.conv(16, pads=[1, 1, 1, 1], group=16)
    model.apply("Relu")
    model.conv(16, 1)
    model.quantized()
    model.value = model.node("Add", model.value, skipped)
    model.quantized()
    model.apply("GlobalAveragePool")
    network = model.saved(tmp_path / "model.onnx", shape)
    reason = "its channels are in groups"
    check(network, shape, {"conv2d": 2}, {("conv2d", reason): 1})
    mod = extraction.legalized(networks.build(network, instruction=instruction_of(target())).mod, target())
    called = [str(call.args[0].name_hint) for call in extraction.calls(mod["main"])]
    assert sum("transpose" in name for name in called) == 2, "at the beginning and at the end"
    assert "transpose" in called[0]
    assert "transpose" in called[-1]
    assert not any("transpose" in name for name in called if "conv2d" in name)


@pytest.mark.parametrize(("cpu", "kind"), [("znver4", "int8_matmul"), ("znver3", "matmul")])
def test_extracted_tasks_are_those_of_a_run_for_that_target(tmp_path: Path, cpu: str, kind: str) -> None:
    from tuning.engines.oneshot import inspecting

    model = Qdq((4, 32))
    model.gemm(16)
    network = model.saved(tmp_path / "model.onnx", (4, 32))
    question = Question(network=network, target={**VNNI, "mcpu": cpu}, memory_mb=4096, cpu_s=600)
    told = inspecting.inspect(question, mock.Mock())
    (found,) = [task.name for task in told.tasks if "matmul" in task.name]
    assert found.startswith(f"fused_{kind}_")


def test_layers_of_one_shape_are_one_task(tmp_path: Path) -> None:
    """Whatever their scales and zero points. Only the last one's result is dequantized."""
    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.targets.dot_products import instruction_of

    model = Qdq((4, 32))
    for scale in (0.02, 0.03, 0.04):
        model.gemm(32)
        model.apply("Relu")
        model.quantized(scale)
    mod = networks.build(model.saved(tmp_path / "model.onnx", (4, 32)), instruction=instruction_of(target())).mod
    tasks = extraction.extract(extraction.legalized(mod, target()), target())
    assert [int(task.weight) for task in tasks if "int8_matmul" in task.task_name] == [2, 1]
