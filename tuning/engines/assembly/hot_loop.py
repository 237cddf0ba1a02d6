"""The loop of an assembly text that does most of the arithmetic, as far as the text tells: trip counts aren't in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import mode
from typing import Any

from tuning.engines.wire.showing import HotLoop

from .instructions import AARCH64, X86, Architecture, Work, work_of
from .loops import Block, Loop, functions, loops

TIMES_LOG2 = 3
"""The logarithm to base 2 of how often the body of a loop is presumed to run, as compilers presume it of loops whose length they don't know."""
SCALABLE_BITS = 128
"""The least that a register of SVE has."""
ARCHITECTURES = {"x86_64": X86, "i386": X86, "i686": X86, "aarch64": AARCH64, "arm64": AARCH64}
"""By the beginning of LLVM's target triple."""


def hot_loop(assembly: str, triple: str) -> HotLoop | None:
    """The loop with the most arithmetic of its own, weighed by how deep it is nested.

    None if no loop computes with floating-point numbers, or for another architecture.
    """
    architecture = ARCHITECTURES.get(triple.partition("-")[0])
    if architecture is None:
        return None
    scored = ((_score(loop, architecture), name, loop) for name, loop in _loops(assembly, architecture))
    best = max(scored, key=lambda one: one[0], default=None)
    if best is None or best[0] == 0:
        return None
    _, name, loop = best
    return HotLoop(function=name, depth=loop.depth, **_summary(loop, architecture))


def _loops(assembly: str, architecture: Architecture) -> Iterator[tuple[str, Loop]]:
    for name, blocks in functions(assembly, architecture.comment):
        for loop in loops(blocks):
            yield name, loop


def _score(loop: Loop, architecture: Architecture) -> int:
    """Bits that one turn computes, FMAs counted twice, times how often it is presumed to run."""
    work = (one for one in _work(loop.own, architecture) if one.arithmetic)
    return sum((one.bits or SCALABLE_BITS) * (2 if one.fma else 1) for one in work) << (TIMES_LOG2 * loop.depth)


def _work(blocks: Iterable[Block], architecture: Architecture) -> list[Work]:
    return [work_of(one, architecture) for block in blocks for one in block.instructions]


def _summary(loop: Loop, architecture: Architecture) -> dict[str, Any]:
    work = _work(loop.own, architecture)
    lines = [one.line for block in loop.blocks for one in block.instructions]
    arithmetic = [one for one in work if one.fma] or [one for one in work if one.arithmetic]
    return {
        "first": min(lines),
        "last": max(lines),
        "instructions": len(work),
        "fma": sum(one.fma for one in work),
        "arithmetic": sum(one.arithmetic and not one.fma for one in work),
        "bits": mode(one.bits for one in arithmetic),
        "loads": sum(one.load for one in work),
        "stores": sum(one.store for one in work),
        "stack": sum(one.stack for one in work),
    }
