"""Walks through ONNX graphs with the branches inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import GraphProto, ModelProto, NodeProto

STANDARD = ("", "ai.onnx")
"""Names of ONNX's own operator domain."""


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and those of its branches and loops."""
    yield graph
    for inner in subgraphs(graph.node):
        yield from graphs(inner)


def nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """All nodes, including those of branches and loops."""
    for one in graphs(graph):
        yield from one.node


def subgraphs(nodes: Iterable[NodeProto]) -> Iterator[GraphProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g


def opset(model: ModelProto) -> int:
    """The version of ONNX's own operators that the model uses; 1 if it doesn't say."""
    return next((one.version for one in model.opset_import if one.domain in STANDARD), 1)
