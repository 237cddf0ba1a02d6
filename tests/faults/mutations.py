"""Changes of ONNX files and saved Relax modules, from single bits to misplaced parts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

LARGEST = 1 << 18
"""Bytes: a change that makes more is cut off."""
NUMBERS = [0, -1, 1, 2, 7, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53, 2**63 - 1, -(2**63)]
TEXTS = [
    "",
    "x",
    "y",
    "main",
    "\x00",
    "=1+1",
    "../../secret_key",
    "é" * 50,
    "a" * 5000,
    "%s%n",
    "\ud7ff",
    "0",
    "relax.add",
]
Change = Callable[[random.Random, bytes, bytes], bytes]


def mutated(dice: random.Random, file: bytes, other: bytes) -> bytes:
    """The file after one to four changes; some put parts of the other file into it."""
    kinds = [*BYTES, *(JSON if file.startswith(b"{") else PROTOBUF) * 2]
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        file = dice.choice(kinds)(dice, file, other)[:LARGEST]
    return file


def flip(dice: random.Random, file: bytes, _: bytes) -> bytes:
    changed = bytearray(file)
    for _bit in range(min(len(changed), dice.choice((1, 2, 8, 64)))):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def overwrite(dice: random.Random, file: bytes, _: bytes) -> bytes:
    start, end = _range(dice, file)
    return file[:start] + dice.choice((b"\x00", b"\xff", b"\x80", b"[", b"9")) * (end - start) + file[end:]


def truncate(dice: random.Random, file: bytes, _: bytes) -> bytes:
    return file[: dice.randrange(len(file) + 1)]


def leave_out(dice: random.Random, file: bytes, _: bytes) -> bytes:
    start, end = _range(dice, file)
    return file[:start] + file[end:]


def repeat(dice: random.Random, file: bytes, _: bytes) -> bytes:
    start, end = _range(dice, file)
    return file[:end] + file[start:end] * dice.choice((1, 2, 50)) + file[end:]


def splice(dice: random.Random, file: bytes, other: bytes) -> bytes:
    start, end = _range(dice, other)
    at = dice.randrange(len(file) + 1)
    return file[:at] + other[start:end] + file[dice.randrange(at, len(file) + 1) :]


def change_field(dice: random.Random, file: bytes, _: bytes) -> bytes:
    """Set, clear, repeat or swap a field of the model, or of a message anywhere in it."""

    def change(message: Message) -> None:
        field = dice.choice(list(message.DESCRIPTOR.fields))
        value = getattr(message, field.name)
        if field.is_repeated:
            _change_list(dice, value, field)
        elif field.message_type is None:
            setattr(message, field.name, _odd(dice, field))
        else:
            message.ClearField(field.name)

    return _changed(dice, file, change)


def move_message(dice: random.Random, file: bytes, other: bytes) -> bytes:
    """Put a message of this file or of the other one in the place of another of its type: graphs into themselves, too."""
    donor = _model(dice.choice((file, other))) or onnx.ModelProto()

    def change(message: Message) -> None:
        alike = [one for one in _messages(donor) if one.DESCRIPTOR is message.DESCRIPTOR]
        if alike:
            message.CopyFrom(dice.choice(alike))

    return _changed(dice, file, change)


def nest_graph(dice: random.Random, file: bytes, _: bytes) -> bytes:
    """Put the graph into an attribute of one of its own operators, several times."""
    model = _model(file)
    if model is None or not model.graph.node:
        return file
    for _level in range(dice.choice((1, 3, 12))):
        node = dice.choice(list(model.graph.node))
        inner = onnx.GraphProto()
        inner.CopyFrom(model.graph)
        node.attribute.append(onnx.helper.make_attribute("body", inner))
        node.op_type = dice.choice((node.op_type, "If", "Loop", "Scan"))
        if model.ByteSize() > LARGEST:
            break
    return bytes(model.SerializeToString())


def change_value(dice: random.Random, file: bytes, _: bytes) -> bytes:
    """Replace a value anywhere in the JSON."""
    return _rewritten(dice, file, lambda parent, key: parent.__setitem__(key, _odd_json(dice, parent[key])))


def change_reference(dice: random.Random, file: bytes, _: bytes) -> bytes:
    """Let a node refer to another one, or be of another's type."""

    def change(saved: Any) -> None:
        nodes = saved["nodes"]
        node, other = dice.choice(nodes), dice.choice(nodes)
        choice = dice.randrange(4)
        if choice == 0:
            node["type"] = other["type"]
        elif choice == 1:
            node["data"] = other.get("data")
        elif choice == 2:
            saved["root_index"] = dice.randrange(-1, len(nodes) + 1)
        else:
            data = node.get("data")
            for key in list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else []:
                if isinstance(data[key], int) and dice.random() < 0.5:
                    data[key] = max(0, data[key] + dice.choice((-3, -2, -1, 0, 1)))

    return _with_json(file, change)


def move_node(dice: random.Random, file: bytes, other: bytes) -> bytes:
    """Leave out, repeat or swap nodes, or take some of the other module."""

    def change(saved: Any) -> None:
        nodes = saved["nodes"]
        here, there = dice.randrange(len(nodes)), dice.randrange(len(nodes))
        choice = dice.randrange(4)
        if choice == 0:
            nodes[here], nodes[there] = nodes[there], nodes[here]
        elif choice == 1:
            nodes.pop(here)
        elif choice == 2:
            nodes.insert(here, json.loads(json.dumps(nodes[there])))
        elif other.startswith(b"{"):
            nodes[here:there] = json.loads(other)["nodes"][here:there]

    return _with_json(file, change)


def nest_json(dice: random.Random, file: bytes, _: bytes) -> bytes:
    """Nest brackets deeper than any reader recurses."""
    depth = dice.choice((10, 900, 100_000))
    at = dice.randrange(len(file) + 1)
    return file[:at] + b"[" * depth + b"]" * dice.choice((0, depth)) + file[at:]


BYTES: list[Change] = [flip, overwrite, truncate, leave_out, repeat, splice]
PROTOBUF: list[Change] = [change_field, change_field, move_message, nest_graph]
JSON: list[Change] = [change_value, change_value, change_reference, change_reference, move_node, nest_json]


def _range(dice: random.Random, file: bytes) -> tuple[int, int]:
    start = dice.randrange(len(file) + 1)
    return start, min(len(file), start + dice.choice((1, 2, 4, 16, 256, 4096)))


def _model(file: bytes) -> Any:
    """None if it can't be parsed any more."""
    try:
        return onnx.ModelProto.FromString(file)
    except DecodeError:
        return None


def _changed(dice: random.Random, file: bytes, change: Callable[[Message], None]) -> bytes:
    model = _model(file)
    if model is None:
        return file
    change(dice.choice(list(_messages(model))))
    return bytes(model.SerializeToString())


def _messages(message: Message) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                yield from _messages(one)


def _change_list(dice: random.Random, values: Any, field: FieldDescriptor) -> None:
    if not len(values) or dice.random() < 0.3:
        if field.message_type is None:
            values.append(_odd(dice, field))
        else:
            values.add()
        return
    at = dice.randrange(len(values))
    if dice.random() < 0.4:
        del values[at]
    elif field.message_type is None:
        values[at] = _odd(dice, field)
    else:
        values.add().CopyFrom(values[at])


def _odd(dice: random.Random, field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        return dice.choice(
            [*(one.number for one in field.enum_type.values), *([] if field.enum_type.is_closed else [99])]
        )
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return dice.choice((0.0, -1.0, float("inf"), float("nan"), 1e30))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return dice.choice(TEXTS).encode()
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return dice.choice(TEXTS)
    most = 2**63 if field.cpp_type == FieldDescriptor.CPPTYPE_INT64 else 2**31
    least = 0 if field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64) else -most
    return dice.choice([number for number in NUMBERS if least <= number < most])


def _odd_json(dice: random.Random, value: Any) -> Any:
    odd: list[Any] = [None, True, [], {}, [[]], {"a": 1}, 1.5, float("inf"), 10**400, *NUMBERS, *TEXTS]
    if isinstance(value, int):
        odd += [value + 1, value - 1, -value, str(value), value % 1000 + 0.5] * 5
    if isinstance(value, str):
        odd += [value[:-1], value + "x", value * 2, value[::-1]] * 5
    return dice.choice(odd)


def _with_json(file: bytes, change: Callable[[Any], None]) -> bytes:
    try:
        saved = json.loads(file)
        change(saved)
        return json.dumps(saved).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return file  # An earlier change has left no module.


def _rewritten(dice: random.Random, file: bytes, change: Callable[[Any, Any], None]) -> bytes:
    def somewhere(saved: Any) -> None:
        parent = saved
        while True:
            key = dice.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
            inner = parent[key]
            if not inner or not isinstance(inner, (dict, list)) or dice.random() < 0.05:
                change(parent, key)
                return
            parent = inner

    return _with_json(file, somewhere)
