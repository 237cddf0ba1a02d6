"""What ptxas says of each kernel that it assembles with `-v`: registers, shared memory, and what was spilled."""

from __future__ import annotations

import re
from typing import NamedTuple

_KERNEL = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


class Needs(NamedTuple):
    """What a thread of a kernel needs, and its block of shared memory. All but `registers` are in bytes."""

    registers: int
    shared: int
    """Known when it was compiled; what is dynamic comes on top of it."""
    stack: int
    """Of a thread, in local memory: arrays, and what was spilled."""
    spill_stores: int
    spill_loads: int


def needs(report: str) -> dict[str, Needs]:
    """By the kernel's name. A kernel of which something isn't told is left out."""
    found = {}
    for part in re.split(r"(?=Compiling entry function)", report):
        kernel, registers, stack = (pattern.search(part) for pattern in (_KERNEL, _REGISTERS, _STACK))
        if kernel and registers and stack:
            shared = _SHARED.search(part, registers.start())
            found[kernel[1]] = Needs(int(registers[1]), int(shared[1]) if shared else 0, *map(int, stack.groups()))
    return found
