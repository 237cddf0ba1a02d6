"""Indices outside of their data: constants are refused by the name of their node, others never leave the data.

Before, kernels read and wrote the memory that was there: far outside that ends the process, which is why each is tried far outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import ModelFile

pytestmark = pytest.mark.tvm
ROWS, COLUMNS = 8, 4
SHAPES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = {
    "Gather": ((3,), (3, COLUMNS), None),
    "GatherElements": ((3, COLUMNS), (3, COLUMNS), None),
    "GatherND": ((3, 1), (3, COLUMNS), None),
    "Scatter": ((ROWS, COLUMNS), (ROWS, COLUMNS), (ROWS, COLUMNS)),
    "ScatterElements": ((3, COLUMNS), (ROWS, COLUMNS), (3, COLUMNS)),
    "ScatterND": ((3, 1), (ROWS, COLUMNS), (3, COLUMNS)),
}
"""Of indices, the result, and what is written, if anything is."""
FAR = [ROWS, 1000, 10**8, 2**31 - 1, -ROWS - 1, -(10**8), -(2**31)]


def model(operator: str, dtype: int = TensorProto.INT64, constant: Any = None) -> onnx.ModelProto:
    shape, result, updates = SHAPES[operator]
    inputs = [helper.make_tensor_value_info("data", TensorProto.FLOAT, (ROWS, COLUMNS))]
    if constant is None:
        inputs.append(helper.make_tensor_value_info("indices", dtype, shape))
    if updates:
        inputs.append(helper.make_tensor_value_info("updates", TensorProto.FLOAT, updates))
    node = helper.make_node(operator, ["data", "indices", *(["updates"] if updates else [])], ["y"], name="the lookup")
    initializers = [] if constant is None else [numpy_helper.from_array(np.full(shape, constant), "indices")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)]
    graph = helper.make_graph([node], "graph", inputs, outputs, initializers)
    opset = 10 if operator == "Scatter" else 18
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def read(file: onnx.ModelProto | bytes, folder: Path, kind: Any = "onnx") -> Any:
    from tuning.engines.networks import uploaded

    path = folder / "model"
    path.write_bytes(file if isinstance(file, bytes) else file.SerializeToString())
    return uploaded.build(ModelFile(kind, str(path))).mod


def machine(mod: Any) -> Any:
    import tvm
    from tvm import relax

    return relax.VirtualMachine(relax.build(mod, tvm.target.Target({"kind": "llvm"})), tvm.cpu())


def computed(built: Any, operator: str, index: int, dtype: str) -> Any:
    """What it reads from, or writes to: rows."""
    import tvm

    shape, _, updates = SHAPES[operator]
    data = np.arange(ROWS, dtype="float32")[:, None].repeat(COLUMNS, 1)
    given = [data, np.full(shape, index, dtype), *([np.full(updates, -1, "float32")] if updates else [])]
    result = built["main"](*map(tvm.runtime.tensor, given)).numpy()
    return set(np.argwhere(result == -1)[:, 0].tolist()) if updates else set(result.ravel().tolist())


@pytest.mark.parametrize(
    ("operator", "dtype", "name"),
    [
        *((operator, TensorProto.INT64, "int64") for operator in SHAPES),
        *((operator, TensorProto.INT32, "int32") for operator in SHAPES if not operator.endswith("ND")),
    ],
)
def test_indices_that_are_inputs_stay_inside(operator: str, dtype: int, name: str, tmp_path: Path) -> None:
    built = machine(read(model(operator, dtype), tmp_path))
    for index in range(-ROWS, ROWS):
        assert computed(built, operator, index, name) == {index % ROWS}
    for index in FAR:
        assert computed(built, operator, index, name) <= set(range(ROWS))


@pytest.mark.parametrize("index", [ROWS, -ROWS - 1, 2**31, 2**62])
@pytest.mark.parametrize("operator", SHAPES)
def test_constants_outside_are_refused_by_the_name_of_the_node(operator: str, index: int, tmp_path: Path) -> None:
    with pytest.raises(
        Refused, match=f"{operator} node the lookup has the index {index}, where its data has 8 entries"
    ):
        read(model(operator, constant=index), tmp_path)


@pytest.mark.parametrize("index", [0, ROWS - 1, -1, -ROWS])
@pytest.mark.parametrize("operator", [name for name in SHAPES if name != "Scatter"])
def test_constants_inside_are_read(operator: str, index: int, tmp_path: Path) -> None:
    assert read(model(operator, constant=index), tmp_path)


def test_a_constant_that_is_computed_is_refused(tmp_path: Path) -> None:
    """Neither is it one in the file, nor does the node's name survive."""
    lookup = model("Gather", constant=2)
    del lookup.graph.initializer[:]
    parts = [numpy_helper.from_array(np.array([ROWS, 0, 0]), "part"), numpy_helper.from_array(np.array(1), "one")]
    lookup.graph.initializer.extend(parts)
    lookup.graph.node.insert(0, helper.make_node("Mul", ["part", "one"], ["indices"]))
    built = machine(read(lookup, tmp_path))
    import tvm

    data = np.arange(ROWS, dtype="float32")[:, None].repeat(COLUMNS, 1)
    assert set(built["main"](tvm.runtime.tensor(data)).numpy().ravel().tolist()) <= set(range(ROWS))


def relax_module(body: Any, indices: Any) -> bytes:
    """A module that computes with data and indices, which are inputs unless they are constants."""
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((ROWS, COLUMNS), "float32"))
    given = relax.Var("indices", relax.TensorType((3,), "int64"))
    with builder.function("main", [data, given] if indices is None else [data]):
        chosen = given if indices is None else relax.const(np.array(indices), "int64")
        builder.emit_func_output(builder.emit(body(data, chosen)))
    return str(tvm.ir.save_json(builder.get())).encode()


@pytest.mark.parametrize("index", [*FAR, -1])
def test_so_do_those_of_relax_modules(index: int, tmp_path: Path) -> None:
    import tvm
    from tvm import relax

    ways = {
        "take": lambda data, indices: relax.op.take(data, indices, axis=0),
        "flat": lambda data, indices: relax.op.take(relax.op.reshape(data, (ROWS * COLUMNS,)), indices),
        "index_tensor": lambda data, indices: relax.op.index_tensor(data, [indices]),
    }
    data = np.arange(ROWS, dtype="float32")[:, None].repeat(COLUMNS, 1)
    for way in ways.values():
        built = machine(read(relax_module(way, None), tmp_path, "irmodule"))
        result = built["main"](tvm.runtime.tensor(data), tvm.runtime.tensor(np.full(3, index, "int64")))
        assert set(result.numpy().ravel().tolist()) <= set(range(ROWS))


def test_constants_of_relax_modules_are_refused(tmp_path: Path) -> None:
    from tvm import relax

    take = relax_module(lambda data, indices: relax.op.take(data, indices, axis=0), [0, 1, ROWS])
    with pytest.raises(Refused, match="take has the index 8, where its data has 8 entries"):
        read(take, tmp_path, "irmodule")


def test_a_slice_that_claims_to_be_inside_is_refused(tmp_path: Path) -> None:
    from tvm import relax

    beyond = relax_module(
        lambda data, _: relax.op.strided_slice(data, [0], [100], [200], assume_inbound=True), [0, 1, 2]
    )
    with pytest.raises(Refused, match="bounds can't be checked"):
        read(beyond, tmp_path, "irmodule")
