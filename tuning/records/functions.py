"""Functions of TensorIR and index maps as TVM writes them: JSON with a list of nodes that refer to each other by number.

TVM makes an object of any type that it knows, libraries of native code among them, and code generators call any function that an operator
names. So only what computes is let through. TVM up to 0.21 has `type_key`, `attrs` and `repr_str` where later ones have `type` and `data`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from .annotations import KEYS
from .parsing import Checked, RecordRefused, decode, quote, without_infinities


def words(text: str) -> frozenset[str]:
    """Names that a list in this module separates by spaces."""
    return frozenset(text.split())


HEADER = 8
"""Bytes of the length that precedes the JSON of a workload."""
TEXT = re.compile(r"[A-Za-z0-9_.$<>:+\-]{0,256}")
"""Names and types. Some code generators write names into a program in C."""

ARITHMETIC = words(
    "Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Div EQ FloatImm FloorDiv FloorMod GE GT IntImm LE LShift LT Max Min Mod Mul NE"
    " Not Or RShift Select Sub Var"
)
VALUES = frozenset(("", "None", "int", "float", "bool", "Array", "BigInt", "Map", "String", "PrimType"))
INDEX_MAPS = ARITHMETIC | VALUES | {"IndexMap"}
STATEMENTS = words(
    "AllocBuffer AttrStmt Bind Block BlockRealize Broadcast Buffer BufferLoad BufferRegion BufferStore BufferType BufferRegionType Call"
    " DeclBuffer DictAttrs Evaluate For FuncType GlobalVar IRModule IfThenElse Iter IterVar Let LetStmt MatchBufferRegion Op PointerType"
    " PrimFunc Ramp Range SBlock SBlockRealize SeqStmt ShapeExpr ShapeType SizeVar Source SourceMap SourceName SequentialSpan Span StringImm"
    " TensorLoad TensorRegion TensorType TileLayout TupleType Type While"
)
FUNCTIONS = ARITHMETIC | VALUES | STATEMENTS
"""Types of nodes, without the package that TVM has them in, which changes."""
PACKAGES = frozenset(("", "ffi", "ir", "prim", "relax", "relax.expr", "runtime", "s_tir", "tir", "tirx"))
OPERATORS = words(
    "abs acos acosh asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clz copysign cos cosh erf exp exp10"
    " exp2 fabs floor fma fmod hypot if_then_else infinity isfinite isinf isnan isnullptr large_uint_imm ldexp likely log log10 log1p log2"
    " max_value min_value nearbyint nextafter popcount pow q_multiply_shift q_multiply_shift_per_axis round rsqrt shift_left shift_right"
    " sigmoid sin sinh sqrt tan tanh trunc"
)
"""They compute a number, and touch no memory."""
CALLING = words("call_packed tvm_call_packed tvm_stack_make_array tvm_stack_make_shape")
"""Operators by which functions sort."""
ALLOWED = OPERATORS | CALLING
PACKED = frozenset(f"tvm.contrib.sort.{name}" for name in ("argsort", "argsort_nms", "sort", "topk"))
"""Functions of TVM's own that they may call."""
SCOPES = frozenset(("pragma_scope",))
"""Attributes of statements."""
FUNCTION_KEYS = words(
    "global_symbol layout_free_buffers op_pattern s_tir tir.is_scheduled tir.noalias tirx.is_scheduled tirx.noalias"
    " tir_var_upper_bound"
)
BLOCK_KEYS = words(
    "axis layout_free_placeholders script_parsing_detect_access s_tir.script_parsing_detect_access"
    " tir.script_parsing_detect_access tirx.script_parsing_detect_access workload"
)
"""Keys of blocks that schedules don't put there."""
MAP_KEYS = FUNCTION_KEYS | BLOCK_KEYS | KEYS.keys()


class Node(msgspec.Struct, gc=False):
    type: str = ""
    data: Any = None
    type_key: str = ""
    attrs: dict[str, Any] | None = None
    repr_str: str | None = None
    keys: list[str] | None = None

    @property
    def kind(self) -> str:
        return self.type or self.type_key

    @property
    def name(self) -> str:
        """The type without TVM's package."""
        return self.kind.rpartition(".")[2]

    @property
    def text(self) -> str | None:
        """What a node says that stands for a string or an operator."""
        return self.repr_str if self.repr_str is not None else self.data if isinstance(self.data, str) else None

    @property
    def fields(self) -> dict[str, Any]:
        return self.attrs or (self.data if isinstance(self.data, dict) else {})


class Saved(msgspec.Struct, gc=False):
    nodes: list[Node]


LINE = msgspec.json.Decoder(tuple[Annotated[str, Meta(max_length=64)], str])
SAVED = msgspec.json.Decoder(Saved)
_modules = Checked()


def check_line(text: bytes) -> None:
    """Check a line of the workload file, `[structural hash, base64]`. Raises `RecordRefused`."""
    check_module(decode(LINE, text, "its workload")[1])


def check_module(encoded: str) -> None:
    """Check the function of a line, or of a record. Raises `RecordRefused`."""
    _modules.check(encoded.encode(), _check_module)


def _check_module(encoded: bytes) -> int:
    """Return the number of its nodes."""
    try:
        text = base64.b64decode(encoded, validate=True)[HEADER:]
    except (binascii.Error, ValueError) as error:
        raise RecordRefused(f"its workload isn't base64: {error}") from None
    nodes = decode(SAVED, without_infinities(text), "its workload").nodes
    _check_types(nodes, FUNCTIONS, "its workload")
    _check_texts(nodes, "its workload")
    _check_operators(nodes)
    _check_keys(nodes)
    return len(nodes)


def check_index_map(text: str) -> None:
    """Check the JSON of an index map in a trace. Raises `RecordRefused`."""
    nodes = decode(SAVED, text.encode(), "its index map").nodes
    _refuse_repeated_keys(text)
    _check_types(nodes, INDEX_MAPS, "its index map")
    _check_texts(nodes, "its index map")
    for number, node in enumerate(nodes):
        if node.name != "int" and any(reference >= number for reference in _numbers(node.data)):
            raise RecordRefused("its index map refers to a node that doesn't come before")


def _refuse_repeated_keys(text: str) -> None:
    """Two parsers might take different ones."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise RecordRefused("its index map has a key twice")
        return found

    json.loads(text, object_pairs_hook=once)


def _numbers(data: Any) -> Iterator[int]:
    """The references of a node of an index map, which has no numbers in place but those of `int` nodes."""
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return (value for value in values if isinstance(value, int) and not isinstance(value, bool))


def _check_types(nodes: Iterable[Node], allowed: frozenset[str], what: str) -> None:
    for kind in {node.kind for node in nodes}:
        package, _, name = kind.rpartition(".")
        if package not in PACKAGES or name not in allowed:
            raise RecordRefused(f"{what} has a part that isn't read here: {quote(kind)}")


def _check_texts(nodes: Iterable[Node], what: str) -> None:
    for node in nodes:
        texts = [node.text or "", *(node.keys or ()), *filter(_is_text, node.fields.values())]
        if wrong := next((text for text in texts if not TEXT.fullmatch(text)), None):
            raise RecordRefused(f"{what} has a text that isn't a name: {quote(wrong)}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _check_operators(nodes: Sequence[Node]) -> None:
    """Each call must be of an operator, and that operator on the list."""
    for node in nodes:
        if node.name == "Op" and _operator(node) not in ALLOWED:
            raise RecordRefused(f"its workload calls {quote(node.text or '')}, which does more than compute")
        if node.name == "Call":
            _check_call(nodes, node)
        if node.name == "AttrStmt" and (key := _node_at(nodes, node.fields.get("attr_key")).text) not in SCOPES:
            raise RecordRefused(f"its workload has the attribute {quote(key or '')}, which isn't known here")


def _operator(node: Node) -> str:
    return (node.text or "").rpartition(".")[2]


def _check_call(nodes: Sequence[Node], call: Node) -> None:
    operator = _node_at(nodes, call.fields.get("op"))
    if operator.name != "Op":
        raise RecordRefused("its workload calls something that isn't an operator")
    if _operator(operator).endswith("call_packed"):
        arguments = _node_at(nodes, call.fields.get("args")).data
        name = _text_at(nodes, arguments[0]) if isinstance(arguments, list) and arguments else ""
        if name not in PACKED:
            raise RecordRefused(f"its workload calls the function {quote(name)}")


def _text_at(nodes: Sequence[Node], number: Any) -> str:
    """The text of a `StringImm` or of a string."""
    node = _node_at(nodes, number)
    if node.name == "StringImm":
        node = _node_at(nodes, node.fields.get("value"))
    return node.text or ""


def _check_keys(nodes: Sequence[Node]) -> None:
    """Keys of attributes and annotations. Other maps have functions in them."""
    for node in nodes:
        if node.name != "Map":
            continue
        for key, value in _items(nodes, node):
            if value.name != "GlobalVar" and key not in MAP_KEYS:
                raise RecordRefused(f"its workload has the attribute {quote(key)}, which isn't known here")


def _items(nodes: Sequence[Node], node: Node) -> Iterator[tuple[str, Node]]:
    """The keys of a map that are text, with their values."""
    data = node.data if isinstance(node.data, list) else []
    if node.keys is not None:
        yield from zip(node.keys, (_node_at(nodes, value) for value in data), strict=False)
        return
    for key, value in zip(data[::2], data[1::2], strict=False):
        named = _node_at(nodes, key)
        if named.name == "String":
            yield named.text or "", _node_at(nodes, value)


def _node_at(nodes: Sequence[Node], number: Any) -> Node:
    """The node of a reference, which older versions write as text."""
    with suppress(OverflowError, TypeError, ValueError):
        if 0 <= (place := int(number)) < len(nodes):
            return nodes[place]
    raise RecordRefused(f"its workload refers to a node that it doesn't have: {quote(str(number))}")
