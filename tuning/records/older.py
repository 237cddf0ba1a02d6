"""Records of auto_scheduler and AutoTVM: their steps and knobs, of which a pragma can name code to link.

Both are checked before an older TVM gets them. Its targets are checked there, too: an imported log may be of any.
"""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta, Raw

from .annotations import Whole, Wholes
from .parsing import Checked, RecordRefused, decode, quote

Scope = Annotated[str, Meta(pattern=r"^[a-z0-9_.]{1,32}\Z")]
Pragma = Annotated[str, Meta(pattern=r"^auto_unroll_max_step\$[0-9]{1,9}\Z")]
Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.\-]{0,200}\Z")]
Lengths = Annotated[list[Union[Whole, None]], Meta(max_length=64)]
_FIELDS: dict[str, list[tuple[str, Any]]] = {
    "AN": [("stage", Whole), ("loop", Whole), ("annotation", Whole)],
    "CA": [("stage", Whole), ("target", Whole), ("loop", Whole)],
    "CHR": [("stage", Whole), ("scope", Scope), ("readers", Wholes)],
    "CHW": [("stage", Whole), ("scope", Scope)],
    "CI": [("stage", Whole)],
    "CR": [("stage", Whole)],
    "FFSP": [("stage", Whole), ("loop", Whole), ("sources", Wholes), ("level", Whole), ("inner", Whole)],
    "FSP": [("stage", Whole), ("loop", Whole), ("source", Whole), ("parts", Whole)],
    "FU": [("stage", Whole), ("loops", Wholes)],
    "PR": [("stage", Whole), ("loop", Whole), ("pragma", Pragma)],
    "RE": [("stage", Whole), ("order", Wholes)],
    "RF": [("stage", Whole), ("loop", Whole), ("factor", Whole)],
    "SP": [
        ("stage", Whole),
        ("loop", Whole),
        ("extent", Union[Whole, None]),
        ("lengths", Lengths),
        ("inner", Union[bool, Whole]),
    ],
}
"""Fields of auto_scheduler's steps by their first item, as `tuning.schedules.steps` explains them."""
_KINDS = tuple(
    msgspec.defstruct(kind, fields, tag=kind, array_like=True, forbid_unknown_fields=True, gc=False)
    for kind, fields in _FIELDS.items()
)
WORD = frozenset(f"{ascii_letters}{digits}_.$-")
LONGEST_WORD = 200
MOST_STEPS = 10_000


class _Scheduled(msgspec.Struct, gc=False):
    i: tuple[Annotated[list[Any], Meta(min_length=2)], tuple[Raw, Raw]]


class _Config(msgspec.Struct, gc=False):
    entity: Raw = Raw(b"[]")


class _Tuned(msgspec.Struct, gc=False):
    input: list[Any]
    config: _Config


Entity = Annotated[list[tuple[Word, Literal["sp", "re", "an", "ot"], Any]], Meta(max_length=1000)]
_SCHEDULED, _TUNED = msgspec.json.Decoder(_Scheduled), msgspec.json.Decoder(_Tuned)
_ENTITY = msgspec.json.Decoder(Entity)
_STEPS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Annotated[list[Union[_KINDS]], Meta(max_length=MOST_STEPS)])  # type: ignore[valid-type]
_knobs = Checked()


def check_auto_scheduler(text: bytes) -> None:
    """Check a line of auto_scheduler's log. Raises `RecordRefused`."""
    check_steps(decode(_SCHEDULED, text, "it").i[1][1])


def check_steps(steps: Raw) -> None:
    """Raise `RecordRefused` unless the steps can do nothing but schedule."""
    decode(_STEPS, steps, "one of its steps")


def check_autotvm(text: bytes) -> None:
    """Check a line of AutoTVM's log, of its version 0.2, the only one that TVM still reads. Raises `RecordRefused`."""
    if b'"input"' not in text:
        return
    record = decode(_TUNED, text, "it")
    check_entity(record.config.entity)
    check_arguments(record.input[1:])


def check_arguments(task: Any) -> None:
    """Raise `RecordRefused` unless all texts of a task's name and arguments are words."""
    _check_words(task, "an argument of its task")


def check_entity(entity: Raw) -> None:
    """Raise `RecordRefused` unless the knobs have values of the kinds that templates offer."""
    _knobs.check(entity, _check_knobs)


def _check_knobs(text: bytes) -> int:
    """Return the number of knobs. Raises `RecordRefused`."""
    knobs = decode(_ENTITY, text, "its entity")
    _check_words([value for _, _, value in knobs], "a knob's value")
    return len(knobs)


def _check_words(values: Any, what: str) -> None:
    if wrong := next((text for text in _texts(values) if not _is_word(text)), None):
        raise RecordRefused(f"{what} isn't a word: {quote(wrong)}")


def _texts(value: Any) -> list[str]:
    """All texts of the arguments, which are nested lists."""
    if isinstance(value, str):
        return [value]
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in nested for text in _texts(each)]


def _is_word(text: str) -> bool:
    return len(text) <= LONGEST_WORD and not set(text) - WORD
