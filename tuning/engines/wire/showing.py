"""Schedules: what `tuning.engines.oneshot.showing` and `generating` are asked, and what they answer."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from . import question


class Question(question.Question, frozen=True):
    records: list[str]
    """As in `TrialMeasured.record`."""


class Decision(msgspec.Struct, frozen=True):
    """What a sampling instruction decided."""

    instruction: str
    """The instruction's name in the schedule's code."""
    of: str
    """The loop or block that it is about, by its name at that moment, or the annotation whose value it sets."""
    block: str | None
    """The block that the loop or the annotation belongs to."""
    extent: int | None
    """Extent of the loop."""
    decision: Any
    """As TVM has it: factors from the outermost loop to the innermost, or the index of the choice."""
    choice: str
    """The decision in words."""
    among: list[str]
    """The alternatives, if they can be listed."""


class Shown(msgspec.Struct, frozen=True, tag="shown"):
    """The schedule of one record."""

    code: str
    """The trace as Python, as TVM's `Trace.show` prints it."""
    decisions: list[Decision]
    tensorir: str
    """The function with the schedule applied, as TVMScript."""
    packs: bool
    """Whether some of its blocks pack weights, which is done once, when the network is compiled."""


class HotLoop(msgspec.Struct, frozen=True):
    """The loop that does most of the arithmetic. What is counted is its own: not the loops inside of it."""

    function: str
    depth: int
    """From 1, the outermost."""
    first: int
    """Its first line, from 1."""
    last: int
    instructions: int
    fma: int
    """Instructions that multiply and add, or are dot products."""
    arithmetic: int
    """Other instructions that compute with floating-point numbers."""
    bits: int
    """Width of the registers that most of these instructions compute in; 0 if that depends on the machine."""
    loads: int
    stores: int
    stack: int
    """Loads and stores that are of the stack: spilled registers, or buffers that are there."""


class Listing(msgspec.Struct, frozen=True):
    """One form of the code that was made of a schedule."""

    kind: Literal["tir", "llvm", "asm", "cuda", "ptx", "sass"]
    text: str
    hot_loop: HotLoop | None = None
    """Of assembly; null if none was found."""


Bound = Literal["warps", "blocks", "registers", "shared memory"]
"""What a streaming multiprocessor (SM) of a GPU has too little of to hold another block."""


class Occupancy(msgspec.Struct, frozen=True):
    """How much of a kernel an SM holds at a time, in theory: its limits allow it."""

    blocks: int
    """0 if the kernel can't be launched at all."""
    warps: int
    most_warps: int
    """Of any kernel."""
    bounds: list[Bound]
    """What allows no further block."""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.warps / self.most_warps


class Kernel(msgspec.Struct, frozen=True):
    """What a CUDA kernel needs, by what TVM launches it with and what ptxas said of it."""

    name: str
    blocks: int
    """In the grid."""
    threads: int
    """Per block."""
    registers: int
    """Per thread."""
    shared_bytes: int
    """Per block, static and dynamic."""
    stack_bytes: int
    """Of local memory, per thread: arrays, and what was spilled."""
    spill_store_bytes: int
    spill_load_bytes: int
    """Of registers that there weren't enough of, per thread."""
    occupancy: Occupancy | None
    """None if the limits of its architecture aren't known."""


class Kernels(msgspec.Struct, frozen=True):
    """The kernels of a schedule, by one assembler for one architecture."""

    assembler: str
    """Such as `ptxas 13.0.88`."""
    arch: str
    """Such as `sm_80`."""
    kernels: list[Kernel]


class Generated(msgspec.Struct, frozen=True, tag="generated"):
    """What compilers made of one record, from TVM's lowered TIR on."""

    listings: list[Listing]
    kernels: Kernels | None = None
    """Of CUDA, if ptxas is there."""
    missing: list[str] = []
    """Why something of CUDA couldn't be made, and what to install for it, in sentences."""
