"""How many warps of a CUDA kernel fit on one of a GPU's streaming multiprocessors (SM) at a time.

Limits: "Features and Technical Specifications" in the appendix "Compute Capabilities" of NVIDIA's CUDA Programming Guide
(https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html); 7.0 and 7.2, which CUDA 13
dropped, as in the guide of CUDA 12. Arithmetic: NVIDIA's `cuda_occupancy.h`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tuning.engines.wire.showing import Bound, Occupancy

WARP = 32
"""Threads."""
REGISTERS = 64 << 10
"""Of an SM, and the most that a block may have."""
REGISTER_UNIT = 256
"""Registers are given to a warp in multiples of so many."""
PARTITIONS = 4
"""Of an SM; each has an equal part of the registers, and a warp stays in one."""


class Limits(NamedTuple):
    """What an SM has. Shared memory is in KiB."""

    warps: int
    blocks: int
    shared: int
    shared_of_block: int
    reserved: int = 1
    """Shared memory of each block that the system keeps."""
    shared_unit: int = 128
    """Shared memory is given to a block in multiples of so many bytes."""


VOLTA = Limits(64, 32, 96, 96, reserved=0, shared_unit=256)
LIMITS = {
    "70": VOLTA,
    "72": VOLTA,
    "75": Limits(32, 16, 64, 64, reserved=0, shared_unit=256),
    "80": Limits(64, 32, 164, 163),
    "86": Limits(48, 16, 100, 99),
    "87": Limits(48, 16, 164, 163),
    "89": Limits(48, 24, 100, 99),
    "90": Limits(64, 32, 228, 227),
    "100": Limits(64, 32, 228, 227),
    "103": Limits(64, 32, 228, 227),
    "110": Limits(48, 24, 228, 227),
    "120": Limits(48, 24, 100, 99),
    "121": Limits(48, 24, 100, 99),
}
"""By compute capability."""


def occupancy(arch: str, threads: int, registers: int, shared_bytes: int) -> Occupancy | None:
    """The most blocks of a kernel that an SM of the `arch` (such as `sm_80`) holds at a time; None if its limits aren't known.

    `threads` and `shared_bytes` are those of a block, `registers` those of a thread.
    """
    known = re.fullmatch(r"sm_(\d+)[af]?", arch)
    limits = LIMITS.get(known[1]) if known else None
    if limits is None:
        return None
    warps = _divided_up(threads, WARP)
    most: dict[Bound, int] = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": _by_registers(warps, registers),
    }
    if taken := _rounded_up(shared_bytes + (limits.reserved << 10), limits.shared_unit):
        fits = shared_bytes <= limits.shared_of_block << 10
        most["shared memory"] = (limits.shared << 10) // taken if fits else 0
    blocks = min(most.values())
    bounds = [bound for bound, number in most.items() if number == blocks]
    return Occupancy(blocks, blocks * warps, limits.warps, bounds)


def _by_registers(warps: int, registers: int) -> int:
    of_warp = _rounded_up(max(1, registers) * WARP, REGISTER_UNIT)
    if of_warp * _rounded_up(warps, PARTITIONS) > REGISTERS:
        return 0
    return REGISTERS // PARTITIONS // of_warp * PARTITIONS // warps


def _divided_up(number: int, by: int) -> int:
    return -(-number // by)


def _rounded_up(number: int, unit: int) -> int:
    return _divided_up(number, unit) * unit
