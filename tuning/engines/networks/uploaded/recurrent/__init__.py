"""Lowers ONNX's recurrent operators (LSTM, GRU, RNN), which TVM's importer doesn't know, to operators that it knows.

A sequence's length is fixed when a model is read, so the steps are unrolled. All of a direction's steps call the same few functions: they
are the same few tasks, whatever the length.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from onnx import GraphProto, ModelProto, NodeProto

from tuning.engines.networks.uploaded.checks import listed
from tuning.engines.networks.uploaded.onnx_graphs import STANDARD, graphs, nodes, opset
from tuning.engines.wire.errors import Refused

from .cells import State, cell
from .emitting import Emitter, Value
from .reading import GATES, Direction, Known, Recurrent, read

OPERATORS = frozenset(GATES)
OLDEST_OPSET = 10
"""TVM's importer knows the form of Slice from this version on."""
MOST_STEPS = 512
"""Of all operators and directions of a model together."""
_LIMITS = (
    f"Its steps are unrolled: at most {MOST_STEPS:,} in a model, of all operators and directions together. From opset {OLDEST_OPSET} on. "
    "sequence_lens must be a constant that equals the sequence's length."
)
LIMITS = dict.fromkeys(OPERATORS, _LIMITS)
"""What users should know before they upload a model with the operator."""


def lower(model: ModelProto) -> None:
    """Replace the model's recurrent operators. Raises `Refused`, which names the one that can't be and why."""
    if not any(map(_is_recurrent, nodes(model.graph))):
        return
    version, known = opset(model), Known.of(model)
    if version < OLDEST_OPSET:
        raise Refused(
            f"The model's recurrent operators are of opset {version}, but only those from {OLDEST_OPSET} on can be tuned. "
            "Convert it: onnx.version_converter.convert_version(model, 17)."
        )
    _check_steps([read(node, known) for node in nodes(model.graph) if _is_recurrent(node)])
    prefixes = _unused_prefixes(model)
    for graph in reversed(list(graphs(model.graph))):  # The inner ones first, since an outer one copies its nodes.
        _lower(graph, version, known, prefixes)


def _is_recurrent(node: NodeProto) -> bool:
    return node.domain in STANDARD and node.op_type in OPERATORS


def _check_steps(found: list[Recurrent]) -> None:
    steps = sum(one.steps * len(one.directions) for one in found)
    if steps > MOST_STEPS:
        named = listed({one.op for one in found})
        raise Refused(
            f"The model's recurrent operators ({named}) have {steps:,} steps in all, but at most {MOST_STEPS:,} can be unrolled. "
            "Export it with a shorter sequence."
        )


def _unused_prefixes(model: ModelProto) -> Iterator[str]:
    """Beginnings of names that no tensor of the model has."""
    taken = {name for graph in graphs(model.graph) for name in _names(graph)}
    prefixes = (f"recurrent{nth}_" for nth in count())
    return (prefix for prefix in prefixes if not any(name.startswith(prefix) for name in taken))


def _names(graph: GraphProto) -> Iterator[str]:
    yield from (one.name for one in (*graph.input, *graph.initializer))
    yield from (name for node in graph.node for name in node.output)


def _lower(graph: GraphProto, version: int, known: Known, prefixes: Iterator[str]) -> None:
    lowered: list[NodeProto] = []
    for node in graph.node:
        if not _is_recurrent(node):
            lowered.append(node)
            continue
        one = read(node, known)
        emit = Emitter(next(prefixes), version, one.numbers)
        _write(emit, one)
        lowered += emit.nodes
        graph.initializer.extend(emit.constants.values())
    del graph.node[:]
    graph.node.extend(lowered)


def _write(emit: Emitter, node: Recurrent) -> None:
    """Compute all outputs that the node has."""
    x = node.inputs["X"]
    x = emit("Transpose", x, perm=[1, 0, 2]) if node.is_batch_first else x
    unrolled = [_unrolled(emit, node, direction, x) for direction in node.directions]
    if name := node.outputs.get("Y"):
        shape = (node.steps, 1, node.batch, node.hidden)
        y = emit.joined([emit.reshape(emit.joined(hs), *shape) for hs, _ in unrolled], axis=1)
        emit.name(emit("Transpose", y, perm=[2, 0, 1, 3]) if node.is_batch_first else y, name)
    for nth, output in enumerate(("Y_h", "Y_c")):
        if name := node.outputs.get(output):
            last = emit.joined([state[nth] for _, state in unrolled])
            emit.name(emit("Transpose", last, perm=[1, 0, 2]) if node.is_batch_first else last, name)


def _unrolled(emit: Emitter, node: Recurrent, direction: Direction, x: Value) -> tuple[list[Value], State]:
    """H after each step, in the order of the input, and the last state."""
    one = cell(emit, node, direction)
    inputs = list(zip(*(emit.split(part, node.steps) for part in one.inputs(x)), strict=True))
    state, hs = _first(emit, node, direction), []
    for parts in reversed(inputs) if direction.is_reverse else inputs:
        state = one.step(parts, state)
        hs.append(state[0])
    return hs[::-1] if direction.is_reverse else hs, state


def _first(emit: Emitter, node: Recurrent, direction: Direction) -> State:
    names = ("initial_h", "initial_c") if node.op == "LSTM" else ("initial_h",)
    return tuple(_given(emit, node, direction, name) for name in names)


def _given(emit: Emitter, node: Recurrent, direction: Direction, name: str) -> Value:
    if name not in node.inputs:
        return emit.zeros(1, node.batch, node.hidden)
    value, axis = node.inputs[name], 1 if node.is_batch_first else 0
    if len(node.directions) > 1:
        value = emit.slice(value, axis, direction.nth, direction.nth + 1)
    return emit("Transpose", value, perm=[1, 0, 2]) if node.is_batch_first else value
