"""The vector registers of a target's CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

from .resolving import architecture, features


class Registers(NamedTuple):
    """Vector registers for float32."""

    lanes: int
    """Numbers in each."""
    number: int

    def rows(self, width: int) -> int:
        """How many rows of so many vectors of sums fit, beside the vectors that a row is multiplied by and the number that multiplies them.

        AVX-512 multiplies by a number in memory.
        """
        multiplier = 0 if self.lanes == AVX512.lanes else 1
        return max((self.number - width - multiplier) // width, 1)


AVX512, AVX, SSE = Registers(16, 32), Registers(8, 16), Registers(4, 16)
NEON = Registers(4, 32)


def registers(target: Any) -> Registers | None:
    """Those of a CPU target; None if they aren't known, and for GPUs."""
    if str(target.kind.name) != "llvm":
        return None
    name = architecture(target)
    if name == "aarch64":
        return NEON
    if name != "x86_64":
        return None
    known = features(target)
    if "avx512f" in known:
        return AVX512
    return AVX if "avx" in known else SSE
