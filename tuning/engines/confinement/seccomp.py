"""A filter of system calls (seccomp), for this process and all that it starts, with and without namespaces.

The filter is a small program for the kernel's packet filter, made here. libseccomp would make the same, but has no binding with
wheels for each Python and machine that Tuneboard runs on; see docs/security.md. Numbers are those of linux/filter.h, linux/seccomp.h and linux/audit.h.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from collections.abc import Sequence
from errno import ENOSYS
from typing import NamedTuple

from .calling import libc

SET_SECCOMP, FILTER = 22, 2
LOAD, EQUAL, AT_LEAST, AND, JUMP, RETURN = 0x20, 0x15, 0x35, 0x54, 0x05, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000
NUMBER_AT, MACHINE_AT, ARGUMENTS_AT = 0, 4, 16
"""Where the kernel's description of a call has its number, the machine's, and its arguments of 8 bytes each, the lower half first."""
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Each machine's place in a table of numbers, and how the kernel calls it. A process could make calls of another, such as i386."""
OF_X32 = 0x40000000
"""x86-64's calls from this number on are those of programs with short pointers, and mean the same as without it."""


class Condition(NamedTuple):
    """A test of the lower 32 bits of an argument, after `mask` is applied to them."""

    argument: int
    mask: int
    values: tuple[int, ...]
    allows: bool
    """Whether these values are the ones that are allowed, or the ones that are refused."""


class Rule(NamedTuple):
    """A call that fails with an error, always or depending on an argument."""

    call: str
    error: int
    condition: Condition | None = None


class Instruction(NamedTuple):
    """An instruction of the kernel's packet filter. It skips as many instructions as it says, if its test is true or not."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


Numbers = dict[str, "tuple[int | None, int | None]"]


def restrict(rules: Sequence[Rule], numbers: Numbers) -> bool:
    """Have the kernel refuse these calls from now on; says whether it can. The process must have given up to gain privileges."""
    if not sys.platform.startswith("linux") or platform.machine() not in MACHINES:
        return False
    program = compiled(rules, numbers, platform.machine())
    code = b"".join(struct.pack("=HBBI", each.code, each.if_true, each.if_false, each.value) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    return bool(libc().prctl(SET_SECCOMP, FILTER, described, 0, 0) == 0)


def compiled(rules: Sequence[Rule], numbers: Numbers, machine: str) -> list[Instruction]:
    """Return the program for a machine. Calls of other machines fail as if the kernel didn't have them."""
    place, name = MACHINES[machine]
    missing = _fail(ENOSYS)
    program = [Instruction(LOAD, MACHINE_AT), Instruction(EQUAL, name, 1), missing, Instruction(LOAD, NUMBER_AT)]
    if machine == "x86_64":
        program += [Instruction(AT_LEAST, OF_X32, 0, 1), missing]
    for rule in rules:
        if (number := numbers[rule.call][place]) is not None:
            body = [*_test(rule.condition), _fail(rule.error)]
            body += [Instruction(LOAD, NUMBER_AT)] if rule.condition else []
            program += [Instruction(EQUAL, number, 0, len(body)), *body]
    return [*program, Instruction(RETURN, ALLOW)]


def _test(condition: Condition | None) -> list[Instruction]:
    """Skip one instruction, which refuses, unless the condition says that the call is to be refused."""
    if condition is None:
        return []
    load = [
        Instruction(LOAD, ARGUMENTS_AT + 8 * condition.argument),
        Instruction(AND, condition.mask),
    ]
    ways = range(len(condition.values), 0, -1)
    tests = [Instruction(EQUAL, value, skip) for value, skip in zip(condition.values, ways, strict=True)]
    return [*load, *tests, *([] if condition.allows else [Instruction(JUMP, 1)])]


def _fail(error: int) -> Instruction:
    return Instruction(RETURN, FAIL | error)
