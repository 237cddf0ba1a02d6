"""Checks how the nodes of a saved IRModule refer to each other before TVM reads it.

TVM's JSON is a list of nodes that refer to each other by index. TVM follows a node that refers to itself until its stack overflows, so only
references to earlier nodes are let through, which is the order in which TVM writes them. Which types a module may have is up to the caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from tvm_ffi import core

from tuning.engines.wire.errors import Refused

INLINE: dict[str, type | tuple[type, ...]] = {"bool": bool, "int": int, "float": (int, float), "DataType": str}
"""Types of fields that TVM writes in place. Other fields are references."""
VALUES = {**INLINE, "ffi.BigInt": str, "ffi.String": str, "ffi.Tensor": str, "ir.Op": str, "ir.SourceName": str}
"""Nodes whose data is a value: text is that of a data type, a string, a tensor in base64, or the name of an operator or a source."""
SEQUENCES = frozenset(("ffi.Array", "ffi.Map"))


class Node(msgspec.Struct):
    type: str
    data: Any = None


class Saved(msgspec.Struct):
    """The top level of TVM's JSON."""

    nodes: list[Node]
    root_index: int
    metadata: dict[str, str] = {}


def parsed(data: bytes) -> Saved:
    """The file's nodes, which aren't checked yet. Raises `Refused`."""
    try:
        # Not msgspec's parser: TVM writes infinities, which are no JSON.
        return msgspec.convert(json.loads(data), Saved)
    except (ValueError, RecursionError) as error:
        raise Refused(f"The file is not an IRModule written by tvm.ir.save_json: {error}.") from error


def check_references(saved: Saved) -> None:
    """Raise `Refused` unless each node's data has the form that TVM writes, and refers to earlier nodes."""
    for index, node in enumerate(saved.nodes):
        if not all(0 <= reference < index for reference in _references(index, node)):
            raise Refused(f"Node {index} ({node.type}) of the module refers to a node that doesn't come before it.")
    if not 0 <= saved.root_index < len(saved.nodes) or saved.nodes[saved.root_index].type != "ir.IRModule":
        raise Refused("The file doesn't contain an IRModule.")


def checked_json(saved: Saved) -> str:
    """The nodes as JSON. TVM gets this instead of the file, which another parser might understand differently."""
    return json.dumps(msgspec.to_builtins(saved))


def _references(index: int, node: Node) -> Iterator[int]:
    """The nodes that this one refers to. Raises `Refused` if its data has another form than TVM writes."""
    if node.type == "None":
        return
    if node.type in VALUES:
        _require(index, node, _is(node.data, VALUES[node.type]))
    elif node.type in SEQUENCES:
        _require(index, node, isinstance(node.data, list) and all(_is(item, int) for item in node.data))
        yield from node.data
    else:
        _require(index, node, isinstance(node.data, dict))
        for name, kind in _fields(node.type):
            # TVM sets fields that are missing to their defaults, or reports them.
            if name not in node.data:
                continue
            value = node.data[name]
            _require(index, node, _is(value, INLINE.get(kind, int)))
            if kind not in INLINE:
                yield value


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _require(index: int, node: Node, is_fine: bool) -> None:  # noqa: FBT001
    if not is_fine:
        raise Refused(f"Node {index} ({node.type}) of the module isn't as TVM writes it.")


@cache
def _fields(type_key: str) -> list[tuple[str, str]]:
    """Names and types of an object's fields, from TVM's reflection. Raises `Refused` if TVM has no such type."""
    try:
        # There is no public function for types without a Python class.
        info: Any = core._lookup_or_register_type_info_from_type_key(type_key)  # noqa: SLF001
    except Exception as error:
        raise Refused(f"This TVM has no {type_key}.") from error
    fields = []
    while info is not None:
        fields += [(field.name, json.loads(field.metadata["type_schema"])["type"]) for field in info.fields]
        info = info.parent_type_info
    return fields
