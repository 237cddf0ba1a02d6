"""Reads a recurrent operator's node, and refuses what can't be lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.shape_inference import infer_shapes

from tuning.engines.networks.uploaded.checks import listed
from tuning.engines.networks.uploaded.onnx_graphs import graphs
from tuning.engines.wire.errors import Refused

from . import activations

INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
OUTPUTS = ("Y", "Y_h", "Y_c")
DEFAULTS: dict[str, tuple[str, ...]] = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
"""Each operator's activation functions, in the order in which a node can name others."""
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OWN_ATTRIBUTES = {"LSTM": {"input_forget"}, "GRU": {"linear_before_reset"}, "RNN": set[str]()}
COMMON_ATTRIBUTES = frozenset(
    ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "layout")
)
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""For each direction of a node, whether it begins with the last step."""


@dataclass(frozen=True)
class Known:
    """What is known of a model's tensors before it runs, by name: ONNX type, shape, and the values of constants."""

    types: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, model: ModelProto) -> Known:
        inferred = list(graphs(infer_shapes(model, data_prop=True).graph))
        infos = [info for graph in inferred for info in (*graph.input, *graph.value_info, *graph.output)]
        tensors = {info.name: info.type.tensor_type for info in infos if info.type.HasField("tensor_type")}
        weights = [tensor for graph in inferred for tensor in graph.initializer]
        shapes = {
            name: extents
            for name, tensor in tensors.items()
            if tensor.HasField("shape") and all(extents := tuple(one.dim_value for one in tensor.shape.dim))
        }
        return cls(
            {name: tensor.elem_type for name, tensor in tensors.items()} | {one.name: one.data_type for one in weights},
            shapes | {one.name: tuple(one.dims) for one in weights},
            {name: value for graph in inferred for name, value in _integers(graph)},
        )


def _integers(graph: GraphProto) -> list[tuple[str, NDArray[Any]]]:
    """The constants that may be lengths of sequences."""
    named = [(tensor.name, tensor) for tensor in graph.initializer]
    named += [
        (node.output[0], attribute.t)
        for node in graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    arrays = [(name, tensor) for name, tensor in named if len(tensor.dims) == 1]
    return [(name, array) for name, one in arrays if (array := numpy_helper.to_array(one)).dtype.kind == "i"]


@dataclass(frozen=True)
class Direction:
    """One of a node's directions, with its place in the weights."""

    nth: int
    is_reverse: bool
    activations: list[activations.Function]


@dataclass(frozen=True)
class Recurrent:
    """A node that can be lowered. Shapes are those of `layout` 0."""

    op: str
    inputs: dict[str, str]
    """Those that it has, by ONNX's names."""
    outputs: dict[str, str]
    directions: list[Direction]
    steps: int
    batch: int
    hidden: int
    numbers: int
    """The ONNX type of its tensors."""
    is_batch_first: bool
    is_flagged: bool
    """`input_forget` of an LSTM, `linear_before_reset` of a GRU."""
    clip: float | None


def read(node: NodeProto, known: Known) -> Recurrent:
    """What the node computes. Raises `Refused`, which names the operator and what of it can't be lowered."""
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    if others := attributes.keys() - COMMON_ATTRIBUTES - OWN_ATTRIBUTES[node.op_type]:
        raise _refused(node, f"it has attributes that aren't supported: {listed(others)}")
    inputs = {name: one for name, one in zip(INPUTS, node.input, strict=False) if one}
    if missing := {"X", "W", "R"} - inputs.keys():
        raise _refused(node, f"its inputs {listed(missing)} are missing")
    directions = _directions(node, attributes)
    is_batch_first = bool(attributes.get("layout", 0))
    steps, batch, width = _sequence(node, known, is_batch_first=is_batch_first)
    hidden = _hidden(node, known, attributes.get("hidden_size"))
    expected = _expected(node.op_type, len(directions), batch, hidden, width)
    _check_shapes(
        node,
        known,
        inputs,
        {name: _stored(shape, name, is_batch_first=is_batch_first) for name, shape in expected.items()},
    )
    _check_lengths(node, known, inputs, steps)
    return Recurrent(
        op=node.op_type,
        inputs=inputs,
        outputs={name: one for name, one in zip(OUTPUTS, node.output, strict=False) if one},
        directions=directions,
        steps=steps,
        batch=batch,
        hidden=hidden,
        numbers=known.types[inputs["X"]],
        is_batch_first=is_batch_first,
        is_flagged=any(attributes.get(name) for name in OWN_ATTRIBUTES[node.op_type]),
        clip=attributes.get("clip") or None,
    )


def _refused(node: NodeProto, reason: str) -> Refused:
    name = node.name or next(iter(node.output), "")
    return Refused(f"The operator {node.op_type}{f' ({name})' if name else ''} can't be tuned: {reason}.")


def _directions(node: NodeProto, attributes: dict[str, Any]) -> list[Direction]:
    direction = bytes(attributes.get("direction", b"forward")).decode(errors="replace")
    if direction not in DIRECTIONS:
        raise _refused(node, f"its direction is {direction}, not {listed(DIRECTIONS)}")
    reverse, defaults = DIRECTIONS[direction], DEFAULTS[node.op_type]
    names = [_activation(node, name.decode(errors="replace")) for name in attributes.get("activations", [])]
    if "activations" not in attributes:
        names = [*defaults] * len(reverse)
    # ONNX's own default of an RNN has two names, whatever the direction.
    names = names[: len(defaults) * len(reverse)] if node.op_type == "RNN" else names
    if len(names) != len(defaults) * len(reverse):
        raise _refused(node, f"its attribute activations has {len(names)} names, not {len(defaults) * len(reverse)}")
    parameters = (attributes.get(f"activation_{name}", ()) for name in ("alpha", "beta"))
    try:
        functions = activations.functions(names, *parameters)
    except activations.Missing as missing:
        raise _refused(node, str(missing)) from missing
    size = len(defaults)
    return [Direction(n, back, functions[n * size : (n + 1) * size]) for n, back in enumerate(reverse)]


def _activation(node: NodeProto, name: str) -> str:
    found = activations.known_name(name)
    if found is None:
        raise _refused(
            node, f"its attribute activations names {name}, which is none of {listed(activations.ACTIVATIONS)}"
        )
    return found


def _sequence(node: NodeProto, known: Known, *, is_batch_first: bool) -> tuple[int, int, int]:
    """Steps, batch and width of the input."""
    shape = known.shapes.get(node.input[0])
    if shape is None or node.input[0] not in known.types:
        raise _refused(node, "the shape of its input X isn't known before it runs, so its steps can't be unrolled")
    if len(shape) != 3:
        raise _refused(node, f"its input X has the shape {shape}, which isn't a sequence of matrices")
    return (shape[1], shape[0], shape[2]) if is_batch_first else shape


def _hidden(node: NodeProto, known: Known, given: int | None) -> int:
    shape = known.shapes.get(node.input[2])
    hidden = given or (shape[-1] if shape else 0)
    if hidden <= 0:
        raise _refused(node, "its hidden_size is neither given nor told by its weights")
    return hidden


def _expected(op: str, directions: int, batch: int, hidden: int, width: int) -> dict[str, tuple[int, ...]]:
    rows, state = GATES[op] * hidden, (directions, batch, hidden)
    return {
        "W": (directions, rows, width),
        "R": (directions, rows, hidden),
        "B": (directions, 2 * rows),
        "initial_h": state,
        "initial_c": state,
        "P": (directions, 3 * hidden),
    }


def _stored(shape: tuple[int, ...], name: str, *, is_batch_first: bool) -> tuple[int, ...]:
    """The shape as the file has it: `layout` 1 exchanges the first two axes of states."""
    return (shape[1], shape[0], *shape[2:]) if is_batch_first and name.startswith("initial") else shape


def _check_shapes(node: NodeProto, known: Known, inputs: dict[str, str], expected: dict[str, tuple[int, ...]]) -> None:
    for name, shape in expected.items():
        found = known.shapes.get(inputs.get(name, ""), shape)
        if found != shape:
            raise _refused(node, f"its input {name} has the shape {found}, not {shape}")


def _check_lengths(node: NodeProto, known: Known, inputs: dict[str, str], steps: int) -> None:
    if "sequence_lens" not in inputs:
        return
    lengths = known.constants.get(inputs["sequence_lens"])
    if lengths is None or not np.all(lengths == steps):
        raise _refused(
            node,
            f"its input sequence_lens is supported only as a constant whose values are all {steps}, the steps of X",
        )
