"""MetaSchedule's workload file: `[structural hash, base64]` a line. Decoded: 8 bytes of length, then TVM's JSON of a module.

A module is a list of nodes that name each other by number. TVM up to 0.21 has `type_key` and `attrs` with numbers as strings, later ones
have `type` and `data`. Until about 0.26 a function's shapes are those of its `buffer_map`, then of its parameters' types.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from tuning.records import functions
from tuning.records.parsing import without_infinities

from .neutral import TensorInfo

LONGEST_HASH = 64
SHASHES = 2**64
"""There are as many structural hashes."""


class Workload(msgspec.Struct, frozen=True):
    """A line of the workload file."""

    structural_hash: str
    line: str
    args: tuple[TensorInfo, ...] | None
    """None if they couldn't be read: the layout of the JSON changes with TVM."""
    tvm_version: str | None

    @property
    def workload_hash(self) -> str:
        """The structural hash as engines report it."""
        return printed_hash(self.structural_hash)


def printed_hash(decimal: str) -> str:
    """A structural hash as TVM prints it (`shash2hex`), of the decimal number that the file has; other text as it is."""
    is_number = decimal.isascii() and decimal.isdecimal() and int(decimal) < SHASHES
    return f"0x{int(decimal):016x}" if is_number else decimal


class Module(msgspec.Struct, gc=False):
    nodes: list[dict[str, Any]]
    attrs: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


LINE = msgspec.json.Decoder(tuple[str, str], strict=True)
MODULE = msgspec.json.Decoder(Module)


def parsed(line: bytes) -> Workload:
    """A line of the workload file. Raises `msgspec.MsgspecError`, and `ValueError` for a module that isn't base64 of JSON."""
    structural_hash, encoded = LINE.decode(line)
    if not structural_hash or len(structural_hash) > LONGEST_HASH:
        raise ValueError("the structural hash is empty or too long")
    try:
        module = MODULE.decode(without_infinities(base64.b64decode(encoded, validate=True)[functions.HEADER :]))
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"the module can't be decoded: {error}") from None
    functions.check_module(encoded)
    version = ((module.attrs or {}) | (module.metadata or {})).get("tvm_version")
    return Workload(structural_hash, line.decode(), _args(module.nodes), version if isinstance(version, str) else None)


def _args(nodes: list[dict[str, Any]]) -> tuple[TensorInfo, ...] | None:
    graph = Graph(nodes)
    functions = [number for number in range(len(nodes)) if graph.kind(number).endswith(".PrimFunc")]
    if len(functions) != 1:
        return None
    try:
        return tuple(graph.tensors(functions[0]))
    except (LookupError, TypeError, ValueError):
        return None


class Graph:
    """The nodes of a module. Its methods raise `LookupError`, `TypeError` or `ValueError` where it isn't as expected."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self._nodes = nodes

    def kind(self, number: int) -> str:
        """The type of a node, for example `tir.PrimFunc`."""
        node = self._nodes[number]
        return str(node.get("type") or node.get("type_key") or "")

    def tensors(self, function: int) -> list[TensorInfo]:
        """The arguments of a function, in order."""
        fields = self._fields(function)
        parameters = self._items(fields["params"])
        if "buffer_map" not in fields:
            return [
                self._tensor(self._fields(each)["ty"], self._text(self._fields(each)["name"])) for each in parameters
            ]
        pairs = self._items(fields["buffer_map"])
        buffers = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return [self._tensor(buffers[each], None) for each in parameters]

    def _tensor(self, number: int | str, name: str | None) -> TensorInfo:
        fields = self._fields(number)
        shape = tuple(self._extent(each) for each in self._items(fields["shape"]))
        return TensorInfo(name or self._text(fields["name"]), shape, self._text(fields["dtype"]))

    def _fields(self, number: int | str) -> dict[str, Any]:
        node = self._nodes[int(number)]
        return node["attrs"] if "attrs" in node else node["data"]  # type: ignore[no-any-return]

    def _items(self, number: int | str) -> list[int]:
        return [int(each) for each in self._nodes[int(number)].get("data", ())]

    def _extent(self, number: int) -> int:
        """An integer: inline in old TVMs, a node of its own in later ones."""
        value = self._fields(number)["value"]
        return int(value) if isinstance(value, str) else int(self._nodes[value]["data"])

    def _text(self, given: int | str) -> str:
        """Text: inline, or the number of a node that has it. `dtype` may also be a `PrimType`."""
        if not str(given).isdigit():
            return str(given)
        node = self._nodes[int(given)]
        if isinstance(node.get("data"), dict):
            return self._text(node["data"]["dtype"])
        return str(node["repr_str"] if "repr_str" in node else node["data"])
