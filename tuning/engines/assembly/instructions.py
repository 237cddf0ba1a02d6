"""What single instructions of x86 (in AT&T's syntax) and AArch64 do."""

from __future__ import annotations

import re
from typing import NamedTuple

from .loops import Instruction


class Work(NamedTuple):
    """What an instruction does. `bits` is the width of the register that it computes in; 0 if that depends on the machine (SVE)."""

    fma: bool = False
    """It multiplies and adds, or is a dot product."""
    arithmetic: bool = False
    """It computes with floating-point numbers, or is a dot product."""
    bits: int = 0
    load: bool = False
    store: bool = False
    stack: bool = False
    """It reads or writes the stack."""


class Architecture(NamedTuple):
    """How to read its assembly."""

    comment: str
    fma: re.Pattern[str]
    arithmetic: re.Pattern[str]


X86 = Architecture(
    "#",
    re.compile(r"v?f(?:n?m(?:add|sub)|maddsub|msubadd)(?:132|213|231)?[ps][sdh]$|vp?dp\w+$|tdp\w+$"),
    re.compile(r"v?(?:add|sub|mul|div|min|max|sqrt|rcp14|rcp|rsqrt14|rsqrt|addsub|hadd)[ps][sdh]$"),
)
AARCH64 = Architecture(
    "//",
    re.compile(
        r"(?:fn?m(?:add|sub)|fml[as]l?2?|fmad|fmsb|bf(?:dot|mmla|mlal[bt])|[su]{1,2}dot|[su]{1,2}mmla|fmmla|fcmla)$"
    ),
    re.compile(r"f(?:n?mul|mulx|add|addp|sub|div|sqrt|min|max|minnm|maxnm|abd|recpe|rsqrte)$"),
)
X86_BITS = {"z": 512, "y": 256, "x": 128}
X86_SCALAR = {"s": 32, "d": 64, "h": 16}
ARM_SCALAR = {"h": 16, "s": 32, "d": 64}
ARM_LANES = re.compile(r"v\d+\.(\d+)([bhsd])")
ARM_BITS = {"b": 8, "h": 16, "s": 32, "d": 64}


def work_of(instruction: Instruction, architecture: Architecture) -> Work:
    """What it does, as far as the hot loop's summary needs it."""
    return _x86(instruction) if architecture is X86 else _aarch64(instruction)


def _x86(one: Instruction) -> Work:
    fma = bool(X86.fma.match(one.name))
    arithmetic = fma or bool(X86.arithmetic.match(one.name))
    reads, writes = _x86_memory(one)
    return Work(fma, arithmetic, _x86_bits(one) if arithmetic else 0, reads, writes, _on_stack(one, reads or writes))


def _x86_bits(one: Instruction) -> int:
    if "dp" not in one.name and one.name[-2:-1] == "s" and one.name[-1] in X86_SCALAR:
        return X86_SCALAR[one.name[-1]]
    register = re.search(r"%([xyz])mm", one.operands)
    return X86_BITS[register[1]] if register else 0


def _x86_memory(one: Instruction) -> tuple[bool, bool]:
    """Whether it reads memory, and whether it writes it. The last operand is the destination."""
    if "(" not in one.operands or one.name.startswith(("lea", "prefetch", "nop", "j", "call")):
        return False, False
    into_memory = re.search(r"\)(?:\s*\{%k\d\})?$", one.operands)
    if not into_memory or one.name.startswith(("cmp", "test", "ucomis", "vucomis", "bt")):
        return True, False
    only_moves = re.match(r"v?(?:mov|p?extr|pcompress|compress|scatter|pscatter|pmov|cvtps2ph)", one.name)
    return not only_moves, True


def _on_stack(one: Instruction, memory: bool) -> bool:  # noqa: FBT001 - a private helper
    return memory and bool(re.search(r"\(%rsp|\[sp\b", one.operands))


def _aarch64(one: Instruction) -> Work:
    fma = bool(AARCH64.fma.match(one.name))
    arithmetic = fma or bool(AARCH64.arithmetic.match(one.name))
    load, store = bool(re.match(r"ld", one.name)), bool(re.match(r"st[^g]", one.name))
    return Work(fma, arithmetic, _aarch64_bits(one) if arithmetic else 0, load, store, _on_stack(one, load or store))


def _aarch64_bits(one: Instruction) -> int:
    if lanes := ARM_LANES.match(one.operands):
        return int(lanes[1]) * ARM_BITS[lanes[2]]
    return ARM_SCALAR.get(one.operands[:1], 0)
