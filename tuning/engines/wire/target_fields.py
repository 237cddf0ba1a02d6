"""What a target may say. TVM passes much of a target on to LLVM: `cl-opt` sets any of LLVM's options, some of which end the process.

What isn't listed here is refused before TVM sees it, and TVM gets the checked fields instead of the text that somebody sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import UNSET, Meta, UnsetType

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,99}")
"""A tag, or a kind alone."""

Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._+/-]*\Z", max_length=100)]
Count = Annotated[int, Meta(ge=0, le=2**40)]
Words = Annotated[list[Word], Meta(max_length=32)]
Features = Annotated[list[Annotated[str, Meta(pattern=r"^[+-][A-Za-z0-9._-]+\Z", max_length=60)]], Meta(max_length=256)]


class TargetRefused(ValueError):
    """The target can't be tuned for here; the text says why."""


class _Common(msgspec.Struct, omit_defaults=True):
    """What targets of any kind may say."""

    keys: Words | UnsetType = UNSET
    tag: Word | UnsetType = UNSET
    device: Word | UnsetType = UNSET
    model: Word | UnsetType = UNSET
    mcpu: Word | UnsetType = UNSET


class Cpu(_Common, tag_field="kind", tag="llvm", rename="kebab"):
    """Code for a CPU, and the part of a GPU's code that its host runs."""

    mtriple: Word | UnsetType = UNSET
    mattr: Features | UnsetType = UNSET
    mabi: Word | UnsetType = UNSET
    mfloat_abi: Word | UnsetType = UNSET
    num_cores: Count | UnsetType = UNSET
    vector_width: Count | UnsetType = UNSET
    opt_level: Count | UnsetType = UNSET
    fast_math: bool | UnsetType = UNSET
    fast_math_nnan: bool | UnsetType = UNSET
    fast_math_ninf: bool | UnsetType = UNSET
    fast_math_nsz: bool | UnsetType = UNSET
    fast_math_arcp: bool | UnsetType = UNSET
    fast_math_contract: bool | UnsetType = UNSET
    fast_math_reassoc: bool | UnsetType = UNSET


Host = Union[Cpu, Word, UnsetType]


class Llvm(Cpu, tag_field="kind", tag="llvm", rename="kebab"):
    host: Host = UNSET


class Cuda(_Common, tag_field="kind", tag="cuda"):
    host: Host = UNSET
    arch: Word | UnsetType = UNSET
    max_shared_memory_per_block: Count | UnsetType = UNSET
    max_threads_per_block: Count | UnsetType = UNSET
    thread_warp_size: Count | UnsetType = UNSET
    registers_per_block: Count | UnsetType = UNSET
    l2_cache_size_bytes: Count | UnsetType = UNSET
    max_num_threads: Count | UnsetType = UNSET


class Vta(_Common, tag_field="kind", tag="ext_dev", kw_only=True):
    """VTA, whose `model` has its TARGET and the configuration of its hardware."""

    device: Literal["vta"]
    host: Host = UNSET


VTA = "ext_dev"
Kinds = Mapping[str, type[Union[Llvm, Cuda, Vta]]]
KINDS: Kinds = {"llvm": Llvm, "cuda": Cuda}
"""The kinds that can be tuned for."""
OLDER_KINDS: Kinds = {**KINDS, VTA: Vta}
"""Those that can be tuned for with an older TVM."""


def checked(asked: str | dict[str, Any], kinds: Kinds = KINDS) -> str | dict[str, Any]:
    """A target as TVM may have it: `this`, a name, or a dict of known fields. JSON text becomes a dict. Raises `TargetRefused`."""
    if isinstance(asked, dict):
        return _fields(asked, kinds)
    text = asked.strip()
    if text.startswith("{"):
        return _fields(_json_object(text), kinds)
    if not text:
        raise TargetRefused("The target is empty. Give `this`, a tag such as nvidia/nvidia-a100, or a JSON object.")
    if not NAME.fullmatch(text):
        raise TargetRefused(
            f'"{text}" isn\'t a target: options are given as JSON, such as {{"kind": "llvm", "mcpu": "…"}}.'
        )
    return text


def not_tuned(kind: Any) -> str:
    if kind == VTA:
        return "Only AutoTVM tunes for VTA (ext_dev), under an interpreter that has a VTA build."
    return f"Targets of kind {str(kind)[:60]} can't be tuned yet, only {' and '.join(KINDS)}."


def _json_object(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise TargetRefused(f"The target isn't valid JSON: {error}.") from error
    except RecursionError as error:
        raise TargetRefused("It is nested too deeply.") from error
    assert isinstance(parsed, dict)
    return parsed


def _fields(given: dict[str, Any], kinds: Kinds) -> dict[str, Any]:
    kind = given.get("kind")
    if kind is None:
        raise TargetRefused('The target has no "kind", such as {"kind": "llvm"}.')
    if not isinstance(kind, str) or kind not in kinds:
        raise TargetRefused(not_tuned(kind))
    _refuse_others(given, kinds[kind], "")
    if isinstance(host := given.get("host"), dict):
        _refuse_others(host, Cpu, "host.")
    try:
        target = msgspec.convert(given, kinds[kind])
    except msgspec.ValidationError as error:
        raise TargetRefused(_in_plain_words(error)) from error
    plain: dict[str, Any] = msgspec.to_builtins(target)
    return plain


def _refuse_others(given: dict[str, Any], kind: type[msgspec.Struct], inside: str) -> None:
    known = ["kind", *sorted(kind.__struct_encode_fields__)]
    for key in given:
        if key not in known:
            raise TargetRefused(f"A target can't have {f'{inside}{key}'[:80]!r} here. Known are: {', '.join(known)}.")


def _in_plain_words(error: msgspec.ValidationError) -> str:
    reason, _, where = str(error).partition(" - at `$.")
    return f"The target's {where.rstrip('`')} is wrong: {reason}." if where else f"The target is wrong: {reason}."
