"""How many bytes an inference touches between two uses of the same weights."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

from tuning.engines.wire.protocol import ModelFile, NetworkSpec

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
STEPS, UNITS = 6, 32


def between(*calls: tuple[dict[str, int], int]) -> list[int | None]:
    """Of calls that are given by their weights' sizes by name, and the size of their results."""
    from tuning.engines.networks.reuse import Call, between_uses

    return between_uses([Call(weights, results) for weights, results in calls])


def counted(calls: list[tuple[dict[str, int], int]], nth: int) -> int | None:
    """The same for one call, by walking back until its largest weights were used."""
    weights, _ = calls[nth]
    if not weights:
        return None
    largest, seen, results = max(weights, key=weights.__getitem__), dict(weights), 0
    for back in range(1, len(calls) + 1):
        earlier, size = calls[nth - back]
        seen |= earlier
        results += size
        if largest in earlier:
            break
    return sum(seen.values()) + results


def test_weights_that_are_used_once_wait_for_a_whole_inference() -> None:
    assert between(({"a": 100, "b": 1}, 10), ({}, 20), ({"c": 1000}, 40)) == [1171, None, 1171]


def test_steps_find_the_weights_of_the_step_before() -> None:
    """Also the first one, which follows the last step of the inference before, with all that begins an inference in between."""
    step = ({"w": 1000, "b": 1}, 10)
    assert between(({"x": 5000}, 100), step, ({}, 20), step, ({}, 20), step) == [6171, 6111, None, 1031, None, 1031]


def test_what_is_used_several_times_in_between_counts_once() -> None:
    assert between(({"a": 100}, 0), ({"b": 7}, 0), ({"b": 7}, 1), ({"c": 3}, 0)) == [111, 111, 7, 111]


def test_it_counts_as_walking_back_does() -> None:
    draw = random.Random(1)
    for _ in range(50):
        sizes = {name: draw.randint(1, 9) * 100 + nth for nth, name in enumerate("abcdef")}
        names = [draw.sample("abcdef", draw.randint(0, 3)) for _ in range(draw.randint(1, 12))]
        calls = [({name: sizes[name] for name in few}, draw.randint(0, 9)) for few in names]
        assert between(*calls) == [counted(calls, nth) for nth in range(len(calls))]


def touched(spec: NetworkSpec) -> Any:
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction, reuse

    mod = networks.build(spec).mod
    return reuse.touched(extraction.legalized(mod, Target({"kind": "llvm", "num-cores": 2})))


def of_file(model: ModelProto, folder: Path) -> Any:
    onnx.save(model, folder / "model.onnx")
    return touched(NetworkSpec("uploaded", {}, ModelFile("onnx", str(folder / "model.onnx"), {})))


def constant(name: str, *shape: int) -> Any:
    values = np.random.default_rng(len(name)).standard_normal(shape) / 16
    return numpy_helper.from_array(values.astype("float32"), name)


def model(nodes: list[Any], shape: list[int], outputs: dict[str, list[int]], constants: list[Any]) -> ModelProto:
    given = helper.make_tensor_value_info("X", 1, shape)
    said = [helper.make_tensor_value_info(name, 1, extents) for name, extents in outputs.items()]
    graph = helper.make_graph(nodes, "graph", [given], said, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_in_an_ordinary_network_each_function_waits_for_all_weights_and_results() -> None:
    found = touched(NetworkSpec("mlp"))
    assert found.inference == (784 * 128 + 128 + 128 * 10 + 10 + 128 + 10) * 4
    assert set(found.functions.values()) == {found.inference}


def test_the_steps_of_an_lstm_share_their_weights(tmp_path: Path) -> None:
    constants = [constant("W", 1, 4 * UNITS, UNITS), constant("R", 1, 4 * UNITS, UNITS), constant("B", 1, 8 * UNITS)]
    node = helper.make_node("LSTM", ["X", "W", "R", "B"], ["Y"], hidden_size=UNITS)
    found = of_file(model([node], [STEPS, 1, UNITS], {"Y": [STEPS, 1, 1, UNITS]}, constants), tmp_path)
    weights, gates = 4 * UNITS * UNITS * 4, 4 * UNITS * 4
    step = weights + gates + 2 * UNITS * 4
    assert sorted(set(found.functions.values())) == [step, found.inference]
    assert [name for name, size in found.functions.items() if size == step] == ["fused_matmul1_add2"]
    assert 2 * weights < found.inference < 2 * weights + 4 * (STEPS + 1) * gates


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_weights_that_layers_share_are_one_however_the_file_is_read(op: str, tmp_path: Path) -> None:
    """What is folded of them, as the transposed ones of a Gemm are, is only equal. The last layer's function has its own copy: it may be laid out otherwise."""
    given: dict[str, Any] = {"transB": 1} if op == "Gemm" else {}
    nodes = []
    for nth, name in enumerate(["X", "a", "b"]):
        nodes += [helper.make_node(op, [name, "W"], [f"{name}w"], **given)]
        if nth < 2:
            nodes += [helper.make_node("Relu", [f"{name}w"], ["ab"[nth]])]
    found = of_file(model(nodes, [4, UNITS], {"bw": [4, UNITS]}, [constant("W", UNITS, UNITS)]), tmp_path)
    weights, result = UNITS * UNITS * 4, 4 * UNITS * 4
    assert found.inference == 2 * weights + 3 * result
    nearest, farthest = weights + result, 2 * weights + 2 * result
    assert found.functions == {"fused_matmul_relu": (nearest + farthest) // 2, "matmul": found.inference}
