"""MetaSchedule's records: `[workload, [[instructions, decisions], run_secs, target, args_info]]`.

An instruction is `[kind, inputs, attributes, outputs]`, a decision `[instruction's index, value]`. TVM doesn't check that index, and reads
inputs that begin with a brace as JSON of any object that it knows. Each instruction is checked by itself, since TVM checks what they
refer to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, Union

import msgspec
from msgspec import Meta, Raw

from . import functions
from .annotations import KEYS, Whole, Wholes, Word
from .parsing import Checked, RecordRefused, decode, quote

MOST_INSTRUCTIONS = 10_000
MOST_KNOWN, LONGEST_KNOWN = 50_000, 200

Block = Annotated[str, Meta(pattern=r"^b[0-9]{1,6}\Z")]
Loop = Annotated[str, Meta(pattern=r"^l[0-9]{1,6}\Z")]
BlockOrLoop = Annotated[str, Meta(pattern=r"^[bl][0-9]{1,6}\Z")]
"""A block or a loop."""
LoopOrFactor = Annotated[str, Meta(pattern=r"^([lv][0-9]{1,6}|None)\Z")]
"""TVM computes the factor that is None."""
Output = Annotated[str, Meta(pattern=r"^([blv][0-9]{1,6}|_)\Z")]
Flags = Annotated[list[Union[bool, Whole]], Meta(max_length=2)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.$\-]{1,256}\Z")]
Scope = Annotated[str, Meta(pattern=r"^[a-z0-9_.]{0,64}\Z")]
Type = Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,32}\Z")]
Thread = Annotated[str, Meta(pattern=r"^((block|thread)Idx\.[xyz]|vthread(\.[xyz])?)\Z")]
IndexMap = Annotated[str, Meta(pattern=r"^\s*\{", max_length=1 << 18)]
"""JSON of an object, which `functions.check_index_map` looks into."""
Nothing = tuple[()]
Blocks = Annotated[list[Block], Meta(max_length=256)]


class _Cached(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    block: Block
    consumers: Blocks = []
    """Since TVM 0.10."""


class Kind(NamedTuple):
    """What an instruction has: the types of its inputs, and of its attributes in each of TVM's versions."""

    inputs: Any
    attributes: Any = Nothing


_OF_BLOCK, _OF_LOOP, _OF_ANY = Kind(tuple[Block]), Kind(tuple[Loop]), Kind(tuple[BlockOrLoop])
_TO_LOOP = Kind(tuple[Block, Loop], Annotated[list[Union[bool, Whole]], Meta(max_length=2)])
_CACHED = Kind(_Cached, tuple[Whole, Scope])
_SPLIT = Kind(Annotated[list[Union[Whole, LoopOrFactor]], Meta(max_length=256)], Flags)
KINDS: dict[str, Kind] = {
    "AddUnitLoop": _OF_ANY,
    "Annotate": Kind(Annotated[list[Raw], Meta(min_length=2, max_length=2)], tuple[Name]),
    "AnnotateBufferAccess": Kind(tuple[Block, IndexMap], tuple[Whole, Whole]),
    "Bind": Kind(tuple[Loop], tuple[Thread]),
    "Blockize": Kind(tuple[Loop], Flags),
    "CacheIndex": Kind(tuple[Block], tuple[Scope, Whole]),
    "CacheInplace": Kind(tuple[Block], tuple[Whole, Scope]),
    "CacheRead": _CACHED,
    "CacheWrite": _CACHED,
    "ComputeAt": _TO_LOOP,
    "ComputeInline": _OF_BLOCK,
    "DecomposePadding": Kind(tuple[Block, Loop]),
    "DecomposeReduction": Kind(tuple[Block, Loop]),
    "EnterPostproc": Kind(Nothing),
    "Fuse": Kind(Annotated[list[Loop], Meta(max_length=256)], Flags),
    "FuseReductionEpilogue": Kind(tuple[Block, Block]),
    "GetBlock": Kind(Nothing, tuple[Name, Name]),
    "GetChildBlocks": _OF_ANY,
    "GetConsumers": _OF_BLOCK,
    "GetLoops": _OF_BLOCK,
    "GetOutputBlocks": _OF_BLOCK,
    "GetProducers": _OF_BLOCK,
    "GetSBlock": Kind(Nothing, tuple[Name, Name]),
    "LoopPartition": _SPLIT,
    "Merge": Kind(Annotated[list[Loop], Meta(max_length=256)]),
    "PadEinsum": Kind(tuple[Block], tuple[Wholes]),
    "Parallel": _OF_LOOP,
    "RFactor": Kind(tuple[Loop], tuple[Whole]),
    "ReIndex": Kind(tuple[Block], tuple[Whole, Whole]),
    "ReadAt": Kind(tuple[Loop, Block], tuple[Whole, Scope]),
    "ReindexCacheRead": Kind(tuple[Block, IndexMap], tuple[Whole, Scope]),
    "ReindexCacheWrite": Kind(tuple[Block, IndexMap], tuple[Whole, Scope]),
    "Reorder": Kind(Annotated[list[Loop], Meta(max_length=256)]),
    "ReorderBlockIterVar": Kind(tuple[Block, Wholes]),
    "ReverseComputeAt": _TO_LOOP,
    "ReverseComputeInline": _OF_BLOCK,
    "RollingBuffer": Kind(tuple[Block], tuple[Whole]),
    "SampleCategorical": Kind(
        Nothing,
        tuple[
            Annotated[list[Whole], Meta(min_length=1, max_length=256)],
            Annotated[list[float], Meta(min_length=1, max_length=256)],
        ],
    ),
    "SampleComputeLocation": _OF_BLOCK,
    "SamplePartitionedTile": Kind(tuple[Loop], tuple[Whole, Whole, Whole]),
    "SamplePerfectTile": Kind(tuple[Loop], tuple[Annotated[int, Meta(ge=1, le=64)], Whole]),
    "SetAxisSeparator": Kind(tuple[Block], tuple[Whole, Whole, Wholes]),
    "SetScope": Kind(tuple[Block], tuple[Whole, Scope]),
    "Split": _SPLIT,
    "StorageAlign": Kind(tuple[Block], tuple[Whole, Whole, Whole, Whole]),
    "Tensorize": Kind(tuple[BlockOrLoop], Annotated[list[Union[bool, Whole, Name]], Meta(min_length=1, max_length=2)]),
    "TransformBlockLayout": Kind(tuple[Block], tuple[IndexMap]),
    "TransformLayout": Kind(
        tuple[Block, IndexMap], Annotated[list[Union[bool, Whole, None]], Meta(min_length=2, max_length=4)]
    ),
    "Unannotate": Kind(tuple[BlockOrLoop], tuple[Name]),
    "Unroll": _OF_LOOP,
    "UnsafeHideBufferAccess": Kind(tuple[Block, Word, Wholes]),
    "UnsafeSetDType": Kind(tuple[Block], tuple[Whole, Type]),
    "Vectorize": _OF_LOOP,
    "WriteAt": Kind(tuple[Loop, Block], tuple[Whole, Scope]),
}
"""Kinds of instructions by name. All of TVM's, from 0.8 to 0.27; a new one has to be looked at before it is listed."""


class Instruction(msgspec.Struct, array_like=True, gc=False):
    kind: str
    inputs: Raw
    attributes: Raw
    outputs: list[Output]


class Trace(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A trace that isn't checked yet."""

    instructions: Raw
    decisions: Raw

    def check(self) -> None:
        """Raise `RecordRefused` unless the trace can do nothing but schedule."""
        length = _lists.check(self.instructions, _check_instructions)
        decisions = decode(DECISIONS, self.decisions, "its decisions")
        if max((index for index, _ in decisions), default=-1) >= length:
            raise RecordRefused("it decides for an instruction that it doesn't have")


class _Record(msgspec.Struct, array_like=True, gc=False):
    workload: Raw
    """`[structural hash, module]`, or the number of a line with it."""
    record: Annotated[list[Raw], Meta(min_length=1, max_length=4)]


RECORD, TRACE, INSTRUCTION = (
    msgspec.json.Decoder(_Record),
    msgspec.json.Decoder(Trace),
    msgspec.json.Decoder(Instruction),
)
DECISIONS = msgspec.json.Decoder(list[tuple[Annotated[int, Meta(ge=0)], Union[Whole, Wholes]]])
INSTRUCTIONS = msgspec.json.Decoder(Annotated[list[Raw], Meta(max_length=MOST_INSTRUCTIONS)])
_OF_KIND = {
    name: (msgspec.json.Decoder(kind.inputs), msgspec.json.Decoder(kind.attributes)) for name, kind in KINDS.items()
}
_ANNOTATING = {key: msgspec.json.Decoder(tuple.__class_getitem__((BlockOrLoop, value))) for key, value in KEYS.items()}
"""The inputs of `Annotate`, by key."""
_lists = Checked()
_known: set[bytes] = set()
"""Instructions that were checked. Comparing the short ones is faster than digesting them."""


def check_record(text: bytes) -> None:
    """Check a whole record, whose workload comes with it. Raises `RecordRefused`."""
    record = decode(RECORD, text, "it")
    workload = bytes(record.workload)
    if not workload.isdigit():
        functions.check_line(workload)
    check_trace(bytes(record.record[0]))


def check_trace(text: bytes) -> None:
    """Raise `RecordRefused` unless the trace can do nothing but schedule."""
    decode(TRACE, text, "its trace").check()


def _check_instructions(text: bytes) -> int:
    """Return how many there are. Raises `RecordRefused`."""
    instructions = decode(INSTRUCTIONS, text, "its trace")
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    for number, raw in enumerate(instructions):
        instruction = bytes(raw)
        if instruction not in _known:
            _check(instruction, number)
            if len(instruction) <= LONGEST_KNOWN:
                _known.add(instruction)
    return len(instructions)


def _check(text: bytes, number: int) -> None:
    instruction = decode(INSTRUCTION, text, f"its instruction {number}")
    kind = instruction.kind
    if kind not in _OF_KIND:
        raise RecordRefused(f"its instruction {number} is of a kind that isn't known here: {quote(kind)}")
    what = f"its instruction {number}, {kind},"
    inputs, attributes = _OF_KIND[kind]
    values = decode(attributes, instruction.attributes, what)
    if kind in ("Annotate", "Unannotate") and values[0] not in KEYS:
        raise RecordRefused(f"its annotation {quote(values[0])} isn't one that records may have")
    if kind == "Annotate":
        inputs = _ANNOTATING[values[0]]
    needs = decode(inputs, instruction.inputs, what)
    for index_map in _objects((*needs, *values) if isinstance(needs, (list, tuple)) else values):
        functions.check_index_map(index_map)


def _objects(values: Iterable[Any]) -> Iterator[str]:
    """The values that TVM reads as JSON of an object."""
    return (value for value in values if isinstance(value, str) and value.lstrip().startswith("{"))
