"""Uploaded models: what they compute, and how invalid ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests import models
from tests.tuning.engines.quantized import Qdq
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import ModelFile, NetworkSpec

pytestmark = pytest.mark.tvm
Read = Callable[..., Any]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read a model from these bytes."""
    from tuning.engines.networks import uploaded

    def build(data: bytes | onnx.ModelProto, kind: Any = "onnx", **dims: int) -> Any:
        path = tmp_path / "uploaded"
        path.write_bytes(data if isinstance(data, bytes) else data.SerializeToString())
        return uploaded.build(ModelFile(kind, str(path), dims))

    return build


def computed(mod: Any, x: Any) -> Any:
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(relax.build(mod, tvm.target.Target({"kind": "llvm"})), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(x)).numpy()


@pytest.mark.parametrize("batch", [1, 3])
def test_a_model_computes_what_onnxs_reference_does(read: Read, batch: int) -> None:
    model = models.convnet("N")
    x = np.random.default_rng(1).standard_normal((batch, 3, 16, 16)).astype("float32")
    expected = np.asarray(next(iter(ReferenceEvaluator(model).run(None, {"x": x}))))
    network = read(model, N=batch)
    assert expected.std() > 0.1
    np.testing.assert_allclose(computed(network.mod, x), expected, atol=1e-5)
    np.testing.assert_allclose(
        computed(read(models.relax_json(model), "irmodule", N=batch).mod, x), expected, atol=1e-5
    )


def test_it_counts_operators_and_parameters(read: Read) -> None:
    network = read(models.convnet())
    assert network.parameters == models.CONVNET_PARAMETERS
    assert network.operators == dict.fromkeys(
        ("Conv", "BatchNormalization", "Relu", "GlobalAveragePool", "Flatten", "Gemm"), 1
    )
    module = read(models.relax_json(), "irmodule")
    assert module.parameters == models.CONVNET_PARAMETERS + 16, "a module doesn't distinguish statistics from weights"
    assert module.operators["nn.conv2d"] == module.operators["nn.batch_norm"] == 1


def test_a_quantized_model_has_the_parameters_that_it_was_made_from(read: Read, tmp_path: Path) -> None:
    model = Qdq((4, 16))
    model.gemm(10)
    quantized = model.saved(tmp_path / "int8.onnx", (4, 16)).file
    assert quantized
    assert read(Path(quantized.path).read_bytes()).parameters == 16 * 10 + 10


def test_batch_norms_and_constants_are_folded(read: Read) -> None:
    from tuning.engines.oneshot import inspecting

    assert inspecting._operators(read(models.convnet()).mod) == {
        "nn.conv2d": 1,
        "add": 2,
        "nn.relu": 1,
        "mean": 1,
        "reshape": 1,
        "matmul": 1,
    }


def test_functions_defined_in_the_file_are_inlined(read: Read) -> None:
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    model = models.onnx_model([helper.make_node("Twice", ["x"], ["y"], domain="own")], {"x": [4]}, {"y": [4]})
    model.functions.append(twice)
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert read(model).operators == {"Add": 1}


def test_a_built_in_network_has_the_same_tasks_as_an_onnx_file(read: Read) -> None:
    import tvm

    from tuning.engines import networks
    from tuning.engines.networks import extraction

    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})

    def work(mod: Any) -> list[tuple[float, int]]:
        tasks = extraction.extract(extraction.legalized(mod, target), target)
        infos = [extraction.describe(index, task) for index, task in enumerate(tasks)]
        return [(info.flop, info.weight) for info in infos]

    network = read(networks.to_onnx(NetworkSpec("resnet-18")))
    assert work(network.mod) == work(networks.build(NetworkSpec("resnet-18", {"layout": "NCHW"})).mod)


def viewed() -> onnx.ModelProto:
    """`x.view(x.size(0), -1) @ w`, as PyTorch exports it with an open batch."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "zeros"], ["first"]),
        helper.make_node("Concat", ["first", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["x", "flat"], ["r"]),
        helper.make_node("Shape", ["r"], ["again"], start=1),
        helper.make_node("Reshape", ["again", "ones"], ["tail"]),
        helper.make_node("Concat", ["first", "tail"], ["same"], axis=0),
        helper.make_node("Reshape", ["r", "same"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    weight = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    constants = {
        "zero": np.array(0),
        "zeros": np.array([0]),
        "rest": np.array([-1]),
        "ones": np.array([1]),
        "w": weight,
    }
    return models.onnx_model(nodes, {"x": ["N", 4, 4]}, {"y": ["N", 8]}, **constants)


def test_arithmetic_on_shapes_is_folded(read: Read) -> None:
    x = np.random.default_rng(1).standard_normal((3, 4, 4)).astype("float32")
    network = read(viewed(), N=3)
    expected = np.asarray(next(iter(ReferenceEvaluator(viewed()).run(None, {"x": x}))))
    np.testing.assert_allclose(computed(network.mod, x), expected, atol=1e-5)
    assert network.operators["Shape"] == 2, "operators are counted before they are folded"


def branching() -> onnx.ModelProto:
    branches = [
        helper.make_graph(
            [helper.make_node(name, ["m"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8])],
        )
        for name in ("Relu", "Neg")
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    weight, zero = np.ones((16, 8), "float32"), np.array(0, "float32")
    return models.onnx_model(nodes, {"x": [4, 16]}, {"y": [4, 8]}, w=weight, zero=zero)


def ranked() -> onnx.ModelProto:
    """With an operator that TVM doesn't tune, and with two outputs."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("TopK", ["m", "k"], ["largest", "places"]),
        helper.make_node("Softmax", ["m"], ["soft"]),
    ]
    outputs: dict[str, list[Any]] = {"largest": [4, 3], "soft": [4, 8]}
    return models.onnx_model(nodes, {"x": [4, 16]}, outputs, w=np.ones((16, 8), "float32"), k=np.array([3]))


@pytest.mark.parametrize(
    ("make", "tasks"),
    [(branching, {"matmul", "sum", "greater", "relu", "tir_negative"}), (ranked, {"matmul", "softmax"})],
)
def test_it_has_tasks_in_branches_and_next_to_untuned_operators(read: Read, make: Any, tasks: set[str]) -> None:
    import tvm

    from tuning.engines.networks import extraction

    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    found = extraction.extract(extraction.legalized(read(make()).mod, target), target)
    assert {extraction.describe(0, task).name for task in found} == tasks


def unsupported() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"]),
        helper.make_node("Attend", ["a"], ["b"], domain="com.example"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Whirl", ["c"], ["y"]),
    ]
    return models.onnx_model(nodes, {"x": [4]}, {"y": [4]})


def shaped_by_values() -> onnx.ModelProto:
    return models.onnx_model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [4]}, {"y": [4]})


def unnamed() -> onnx.ModelProto:
    return models.onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [None, 4]}, {"y": [4]})


def without_rank() -> onnx.ModelProto:
    return models.onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": None}, {"y": [4]})


def from_nowhere() -> onnx.ModelProto:
    return models.onnx_model([helper.make_node("Relu", ["nothing"], ["y"])], {"x": [4]}, {"y": [4]})


def badly_named() -> bytes:
    return bytes(models.dense().SerializeToString()).replace(b"MatMul", b"Mat\xfful")


def mismatched() -> onnx.ModelProto:
    weight = np.zeros((17, 8), "float32")
    return models.onnx_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [4, 16]}, {"y": [4, 8]}, w=weight)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["empty"]),
        (b"PK\x03\x04 and so on", ["archive"]),
        (b"\x80\x04\x95 a pickle of PyTorch", ["not an ONNX model"]),
        (b"hello", ["not an ONNX model"]),
        (models.convnet().SerializeToString()[:-200], ["not an ONNX model", "cut off"]),
        (onnx.ModelProto().SerializeToString(), ["empty"]),
        (unsupported(), ["Frobnicate", "Whirl", "com.example.Attend"]),
        (shaped_by_values(), ["depend on the values of its inputs", "nonzero"]),
        (without_rank(), ["input x", "rank"]),
        (mismatched(), ["failed", "MatMul"]),
        (from_nowhere(), ["failed", "ONNX's own checker says", "nothing"]),
        (badly_named(), ["UTF-8"]),
        (models.dense(0), ["leaves dimensions open: x.0"]),
        (unnamed(), ["leaves dimensions open: x.0"]),
    ],
)
def test_it_says_what_is_wrong_with_an_onnx_file(read: Read, data: Any, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        read(data)
    assert [word for word in words if word not in str(refused.value)] == []


def test_it_names_external_files(read: Read, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"weights\.bin"):
        read(models.external(tmp_path))


def test_it_names_missing_and_unknown_dimensions(read: Read) -> None:
    with pytest.raises(Refused, match="dimensions open: N") as refused:
        read(models.convnet("N"))
    assert refused.value.dims == ["N"]
    with pytest.raises(Refused, match=r"no open dimension M\. The open ones are: N"):
        read(models.convnet("N"), N=1, M=2)
    with pytest.raises(Refused, match="All of its dimensions are fixed"):
        read(models.convnet(2), N=1)
    with pytest.raises(Refused, match="dimensions open: N") as refused:
        read(models.relax_json(models.convnet("N")), "irmodule")
    assert refused.value.dims == ["N"]


def saved(mod: Any) -> bytes:
    import tvm

    return str(tvm.ir.save_json(mod)).encode()


def legalized() -> bytes:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    with tvm.target.Target({"kind": "llvm"}):
        return saved(relax.get_pipeline("zero")(from_onnx(models.dense())))


def calls_out() -> bytes:
    """A call of a function by name, which could be any in the process."""
    from tvm import relax

    x = relax.Var("x", relax.TensorType((4,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(relax.op.call_pure_packed("os.system", x, ty_args=relax.TensorType((4,), "float32")))
        bb.emit_func_output(y)
    return saved(bb.get())


def prints() -> bytes:
    from tvm import relax

    x = relax.Var("x", relax.TensorType((4,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit(relax.op.print(x, format="{}"))
        bb.emit_func_output(bb.emit(relax.op.nn.relu(x)))
    return saved(bb.get())


def takes_a_shape() -> bytes:
    from tvm import relax

    x, shape = relax.Var("x", relax.TensorType((4,), "float32")), relax.Var("shape", relax.ShapeType([4]))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, shape]):
        bb.emit_func_output(bb.emit(relax.op.nn.relu(x)))
    return saved(bb.get())


def renamed() -> bytes:
    return models.relax_json(models.dense()).replace(b'"main"', b'"forward"')


def of_another_tvm() -> bytes:
    saved = json.loads(models.relax_json(models.dense()))
    saved["metadata"]["tvm_version"] = "0.21.0"
    return json.dumps(saved).encode()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: b"", ["empty"]),
        (lambda: b"{", ["save_json"]),
        (lambda: b"[1, 2]", ["save_json"]),
        (lambda: b'{"root_index": 0, "nodes": ' + b"[" * 1_000_000, ["save_json"]),
        (lambda: b"\xff\xfe", ["save_json"]),
        (lambda: models.relax_json()[:5000], ["save_json"]),
        (of_another_tvm, ["TVM 0.21.0"]),
        (lambda: b'{"root_index": 0, "nodes": []}', ["an unknown version"]),
        (renamed, ["no function main", "forward"]),
        (legalized, ["tirx.PrimFunc", "before it is legalized"]),
        (calls_out, ["relax.expr.ExternFunc", "external functions"]),
        (prints, ["relax.print"]),
        (takes_a_shape, ["inputs must be tensors", "shape is a ShapeType"]),
    ],
)
def test_it_says_what_is_wrong_with_a_module(read: Read, make: Callable[[], bytes], words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        read(make(), "irmodule")
    assert [word for word in words if word not in str(refused.value)] == []


def test_json_of_unknown_types_is_refused(read: Read) -> None:
    here = json.loads(models.relax_json(models.dense()))
    for nodes in ([{"type": "ir.Foo"}], [{"type": "int", "data": 3}], []):
        with pytest.raises(Refused, match=r"ir\.Foo|doesn't contain an IRModule"):
            read(json.dumps(here | {"nodes": nodes, "root_index": 0}).encode(), "irmodule")
