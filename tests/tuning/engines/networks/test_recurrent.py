"""LSTM, GRU and RNN in uploaded ONNX files: what they are lowered to computes the same, and what can't be lowered is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import ModelFile

pytestmark = pytest.mark.tvm
Arrays = dict[str, NDArray[Any]]

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, WIDTH, HIDDEN = 3, 2, 4, 5
CASES: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"direction": "bidirectional", "steps": 18, "has": "BP"}),
    ("LSTM", {"has": "Bhc", "clip": 0.3, "direction": "reverse"}),
    ("LSTM", {"has": "BhcP", "input_forget": 1, "direction": "bidirectional"}),
    ("LSTM", {"activations": ["HardSigmoid", "Softsign", "LeakyRelu"], "activation_alpha": [0.3]}),
    ("LSTM", {"steps": 1, "batch": 1, "outputs": ["", "Y_h", "Y_c"]}),
    ("GRU", {"has": "Bh"}),
    ("GRU", {"has": "B", "clip": 0.5, "direction": "bidirectional"}),
    ("GRU", {"linear_before_reset": 1, "direction": "reverse"}),
    ("GRU", {"has": "", "linear_before_reset": 1}),
    ("RNN", {"has": "Bh", "direction": "bidirectional"}),
    ("GRU", {"activations": ["sigmoid", "relu"]}),  # ONNX Runtime takes names in any case.
    ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
]
PARAMETERS = {"Affine": 2, "Elu": 1, "HardSigmoid": 2, "LeakyRelu": 1, "ScaledTanh": 2, "ThresholdedRelu": 1}
"""How many parameters of its own a function has. The others have none."""
FUNCTIONS = [*PARAMETERS, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"]


def drawn(seed: int, shapes: dict[str, tuple[int, ...]]) -> Arrays:
    random = np.random.default_rng(seed)
    return {name: (random.standard_normal(shape) / 2).astype("float32") for name, shape in shapes.items()}


def recurrent(
    op: str,
    *,
    steps: int | str = STEPS,
    batch: int = BATCH,
    has: str = "B",
    outputs: list[str] | None = None,
    opset: int = 17,
    lengths: NDArray[Any] | None = None,
    **attributes: Any,
) -> ModelProto:
    """A model of one operator, whose weights are constants. `has` names the optional inputs: bias, h, c, peepholes."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows, first = GATES[op] * HIDDEN, bool(attributes.get("layout"))
    weights: dict[str, tuple[int, ...]] = {"W": (directions, rows, WIDTH), "R": (directions, rows, HIDDEN)}
    weights |= {
        name: shape
        for name, shape in {"B": (directions, 2 * rows), "P": (directions, 3 * HIDDEN)}.items()
        if name in has
    }
    state = (batch, directions, HIDDEN) if first else (directions, batch, HIDDEN)
    shapes = {"X": (batch, steps, WIDTH) if first else (steps, batch, WIDTH)} | {
        name: state for name in "hc" if name in has
    }
    constants = drawn(0, weights) | ({} if lengths is None else {"lengths": lengths})
    names = ["X", "W", "R", "B", "lengths", "h", "c", "P"]
    inputs = [name if name in shapes or name in constants else "" for name in names]
    while not inputs[-1]:
        inputs.pop()
    outputs = outputs or ["Y", "Y_h", *(["Y_c"] if op == "LSTM" else [])]
    node = helper.make_node(op, inputs, outputs, hidden_size=HIDDEN, name="cell", **attributes)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def inputs_of(model: ModelProto) -> Arrays:
    dims = {one.name: tuple(extent.dim_value for extent in one.type.tensor_type.shape.dim) for one in model.graph.input}
    return drawn(1, dims)


def by_onnxruntime(model: ModelProto) -> list[NDArray[Any]]:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # It warns of each constant that isn't used.
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[NDArray[Any]] = session.run(None, inputs_of(model))
    return outputs


def lowered(model: ModelProto) -> ModelProto:
    from tuning.engines.networks.uploaded import recurrent

    copy = ModelProto()
    copy.CopyFrom(model)
    recurrent.lower(copy)
    assert {node.op_type for node in copy.graph.node}.isdisjoint(GATES)
    return copy


def read(model: ModelProto, tmp_path: Path, **dims: int) -> Any:
    """As an upload is read."""
    from tuning.engines.networks import uploaded

    path = tmp_path / "uploaded"
    path.write_bytes(model.SerializeToString())
    return uploaded.build(ModelFile("onnx", str(path), dims))


def computed(mod: Any, inputs: Arrays) -> list[NDArray[Any]]:
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(relax.build(mod, tvm.target.Target({"kind": "llvm"})), tvm.cpu())
    found = machine["main"](*map(tvm.runtime.tensor, inputs.values()))
    return [found.numpy()] if hasattr(found, "numpy") else [one.numpy() for one in found]


def tasks(mod: Any) -> dict[str, int]:
    """The weight of each task."""
    import tvm

    from tuning.engines.networks import extraction

    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    found = extraction.extract(extraction.legalized(mod, target), target)
    return {str(task.task_name): int(task.weight) for task in found}


def check_equal(found: list[NDArray[Any]], expected: list[NDArray[Any]], tolerance: float = 2e-6) -> None:
    assert [one.shape for one in found] == [one.shape for one in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("op", "options"), CASES)
def test_it_computes_what_onnx_runtime_does(op: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = recurrent(op, **options)
    expected = by_onnxruntime(model)
    assert all(one.std() > 0.01 for one in expected)
    network = read(model, tmp_path)
    assert network.operators == {op: 1}, "operators have the file's names"
    check_equal(computed(network.mod, inputs_of(model)), expected)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Any combination of what ONNX Runtime's operators can do: all but `layout`."""
    op = draw(st.sampled_from(sorted(GATES)))
    options: dict[str, Any] = {
        "direction": draw(st.sampled_from(["forward", "reverse", "bidirectional"])),
        "steps": draw(st.sampled_from([1, 2, 5, 16, 17, 33])),
        "batch": draw(st.integers(1, 3)),
        "has": "".join(draw(st.sets(st.sampled_from("BhcP" if op == "LSTM" else "Bh")))),
        "opset": draw(st.sampled_from([10, 11, 13, 14, 18, 22])),
    }
    own = {"LSTM": "input_forget", "GRU": "linear_before_reset"}.get(op)
    if own:
        options[own] = draw(st.integers(0, 1))
    if draw(st.booleans()):
        options["clip"] = draw(st.floats(0.1, 2))
    if draw(st.booleans()):
        options |= draw(activations(op, 2 if options["direction"] == "bidirectional" else 1))
    return op, options


@st.composite
def activations(draw: st.DrawFn, op: str, directions: int) -> dict[str, list[Any]]:
    one = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    # ONNX Runtime's RNN takes the parameters by direction, and crashes if one direction has none.
    count = one if op == "RNN" else one * directions
    names = draw(st.lists(st.sampled_from(FUNCTIONS), min_size=count, max_size=count))
    names = names * directions if op == "RNN" else names
    small = st.floats(0.25, 0.75, width=32)
    alpha, beta = ([draw(small) for name in names if PARAMETERS.get(name, 0) > nth] for nth in range(2))
    found: dict[str, list[Any]] = {"activations": names, "activation_alpha": alpha, "activation_beta": beta}
    return {name: values for name, values in found.items() if values}


@settings(max_examples=60, deadline=None)
@given(nodes())
def test_any_combination_of_attributes_is_lowered_to_the_same(drawn: tuple[str, dict[str, Any]]) -> None:
    op, options = drawn
    model = recurrent(op, **options)
    expected = by_onnxruntime(model)
    largest = float(np.abs(np.concatenate([one.ravel() for one in expected])).max())
    assume(largest < 1e3)  # Unbounded activations grow from step to step.
    check_equal(by_onnxruntime(lowered(model)), expected, 1e-5 * max(1, largest))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_it_computes_batch_first_what_onnxs_reference_does(op: str, direction: str) -> None:
    """ONNX Runtime doesn't support `layout` 1."""
    model = recurrent(op, layout=1, direction=direction, has="Bhc" if op == "LSTM" else "Bh")
    expected = [np.asarray(one) for one in ReferenceEvaluator(model).run(None, inputs_of(model))]
    check_equal(by_onnxruntime(lowered(model)), expected)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_long_sequences_are_divided_and_joined_in_order(direction: str) -> None:
    model = recurrent("LSTM", steps=300, direction=direction)
    check_equal(by_onnxruntime(lowered(model)), by_onnxruntime(model))


@pytest.mark.parametrize(
    ("op", "options"),
    [("LSTM", {}), ("LSTM", {"has": "Bhc"}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {})],
)
def test_it_has_the_same_few_tasks_whatever_the_length(op: str, options: dict[str, Any], tmp_path: Path) -> None:
    short, long = (tasks(read(recurrent(op, steps=steps, **options), tmp_path).mod) for steps in (6, 12))
    assert len(short) == len(long) <= 8
    assert sum(weight in (5, 6) for weight in short.values()) == sum(weight in (11, 12) for weight in long.values()) > 0
    first = next(iter(long))
    assert "matmul" in first
    assert long[first] == 1, "the product of all steps' inputs is computed once"


def stacked() -> ModelProto:
    """Two bidirectional layers as PyTorch exports them, with an open sequence, and a dense layer of the last step."""
    layers = [(WIDTH, "x", "y0"), (2 * HIDDEN, "t0", "y1")]
    weights: dict[str, tuple[int, ...]] = {"dense": (2 * HIDDEN, 3)}
    nodes = []
    for nth, (width, x, y) in enumerate(layers):
        weights |= {f"W{nth}": (2, 4 * HIDDEN, width), f"R{nth}": (2, 4 * HIDDEN, HIDDEN), f"B{nth}": (2, 8 * HIDDEN)}
        nodes += [
            helper.make_node(
                "LSTM", [x, f"W{nth}", f"R{nth}", f"B{nth}"], [y], hidden_size=HIDDEN, direction="bidirectional"
            ),
            helper.make_node("Transpose", [y], [f"p{nth}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"p{nth}", "flat"], [f"t{nth}"]),
        ]
    nodes += [
        helper.make_node("Gather", ["t1", "last"], ["l"], axis=0),
        helper.make_node("MatMul", ["l", "dense"], ["out"]),
    ]
    constants: Arrays = drawn(0, weights) | {"flat": np.array([0, 0, -1]), "last": np.array(-1)}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["time", BATCH, WIDTH])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [BATCH, 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_layers_with_an_open_sequence_are_lowered_once_it_has_a_value(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="leaves dimensions open: time") as refused:
        read(stacked(), tmp_path)
    assert refused.value.dims == ["time"]
    x = drawn(1, {"x": (4, BATCH, WIDTH)})
    expected = [np.asarray(one) for one in ReferenceEvaluator(stacked()).run(None, x)]
    network = read(stacked(), tmp_path, time=4)
    assert network.operators["LSTM"] == 2
    check_equal(computed(network.mod, x), expected)


def test_an_operator_in_a_branch_is_lowered(tmp_path: Path) -> None:
    inner = recurrent("GRU", outputs=["", "Y_h"])
    then = helper.make_graph(
        list(inner.graph.node),
        "then",
        [],
        [helper.make_tensor_value_info("Y_h", TensorProto.FLOAT, [1, BATCH, HIDDEN])],
    )
    otherwise = helper.make_graph(
        [helper.make_node("Identity", ["zeros"], ["z"])],
        "otherwise",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, BATCH, HIDDEN])],
    )
    model = ModelProto()
    model.CopyFrom(inner)
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("ReduceMax", ["X"], ["most"], keepdims=0))
    model.graph.node.append(helper.make_node("Less", ["most", "limit"], ["c"]))
    model.graph.node.append(helper.make_node("If", ["c"], ["out"], then_branch=then, else_branch=otherwise))
    constants = {"limit": np.array(9, "float32"), "zeros": np.zeros((1, BATCH, HIDDEN), "float32")}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, BATCH, HIDDEN]))
    network = read(model, tmp_path)
    check_equal(computed(network.mod, inputs_of(model)), by_onnxruntime(inner))


@pytest.mark.parametrize(("dtype", "op", "tolerance"), [("float64", "LSTM", 1e-12), ("float16", "GRU", 4e-3)])
def test_it_computes_in_the_data_type_of_the_file(dtype: str, op: str, tolerance: float, tmp_path: Path) -> None:
    model = recurrent(op)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = {name: value.astype(dtype) for name, value in inputs_of(model).items()}
    expected = [np.asarray(one) for one in ReferenceEvaluator(model).run(None, inputs)]
    found = computed(read(model, tmp_path).mod, inputs)
    assert {str(one.dtype) for one in found} == {dtype}
    check_equal(found, expected, tolerance)


def test_lengths_that_are_those_of_the_input_change_nothing() -> None:
    model = recurrent("LSTM", lengths=np.full(BATCH, STEPS, "int32"))
    check_equal(by_onnxruntime(lowered(model)), by_onnxruntime(recurrent("LSTM")))


def with_weights(model: ModelProto, **weights: NDArray[Any]) -> ModelProto:
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
    return model


def with_lengths_as_an_input() -> ModelProto:
    model = recurrent("GRU", lengths=np.full(BATCH, STEPS, "int32"))
    del model.graph.initializer[-1]
    model.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [BATCH]))
    return model


def of_unknown_shape() -> ModelProto:
    """The steps of the LSTM depend on the values of the input."""
    model = recurrent("LSTM")
    model.graph.node[0].input[0] = "found"
    model.graph.node.insert(0, helper.make_node("Compress", ["X", "chosen"], ["found"], axis=0))
    model.graph.node.insert(0, helper.make_node("Cast", ["X0"], ["chosen"], to=TensorProto.BOOL))
    model.graph.input.append(helper.make_tensor_value_info("X0", TensorProto.FLOAT, [STEPS]))
    return model


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (recurrent("LSTM", lengths=np.array([STEPS, 2], "int32")), ["LSTM (cell)", "sequence_lens", str(STEPS)]),
        (with_lengths_as_an_input(), ["GRU (cell)", "sequence_lens"]),
        (recurrent("GRU", activations=["Sigmoid", "Swish"]), ["GRU (cell)", "activations", "Swish", "HardSigmoid"]),
        (recurrent("LSTM", activations=["Sigmoid", "Tanh"]), ["LSTM (cell)", "activations", "2 names, not 3"]),
        (recurrent("RNN", activations=["ThresholdedRelu"]), ["RNN (cell)", "activation_alpha", "ThresholdedRelu"]),
        (recurrent("RNN", activations=["Affine"], activation_alpha=[1.0]), ["activation_beta", "Affine"]),
        (recurrent("LSTM", direction="sideways"), ["LSTM (cell)", "direction", "sideways", "bidirectional"]),
        (recurrent("LSTM", linear_before_reset=1), ["LSTM (cell)", "attributes", "linear_before_reset"]),
        (recurrent("LSTM", opset=9), ["opset 9", "from 10 on", "convert_version"]),
        (recurrent("LSTM", steps=100_000), ["LSTM", "100,000 steps"]),
        (of_unknown_shape(), ["LSTM (cell)", "shape of its input X isn't known"]),
        (with_weights(recurrent("LSTM"), R=np.zeros((1, 20, 6), "float32")), ["input R", "(1, 20, 6), not (1, 20, 5)"]),
        (with_weights(recurrent("GRU"), B=np.zeros((1, 3), "float32")), ["GRU (cell)", "input B", "(1, 3)"]),
    ],
)  # fmt: skip
def test_it_says_what_cannot_be_lowered(model: ModelProto, words: list[str]) -> None:
    from tuning.engines.networks.uploaded import recurrent

    with pytest.raises(Refused) as refused:
        recurrent.lower(model)
    assert [word for word in words if word not in str(refused.value)] == []


def test_a_refusal_reaches_who_uploads(tmp_path: Path) -> None:
    with pytest.raises(
        Refused, match=r"^The operator LSTM \(cell\) can't be tuned: its attribute activations names Swish"
    ):
        read(recurrent("LSTM", activations=["Swish", "Tanh", "Tanh"]), tmp_path)


def test_names_of_the_file_are_not_taken() -> None:
    model = recurrent("RNN")
    model.graph.node.append(helper.make_node("Identity", ["Y"], ["recurrent0_1"]))
    model.graph.output.append(helper.make_tensor_value_info("recurrent0_1", TensorProto.FLOAT, None))
    names = [name for node in lowered(model).graph.node for name in node.output]
    assert len(names) == len(set(names))
    check_equal(by_onnxruntime(lowered(model)), by_onnxruntime(model))


def test_what_it_is_lowered_to_is_valid_onnx() -> None:
    model = lowered(recurrent("LSTM", opset=22, has="BhcP", clip=0.5))
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model))
