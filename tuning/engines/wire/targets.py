"""Targets: what `tuning.engines.oneshot.resolving` and `tuning.engines.oneshot.listing.tags` are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from .question import Question


class Resolve(Question, frozen=True):
    target: str | dict[str, Any]
    """`this`, a tag, a target's dict, or its JSON text."""
    remote: bool
    """Whether the device isn't this machine's, which then need only build for it."""


class TargetInfo(msgspec.Struct, tag="target", frozen=True):
    """A target that can be tuned for."""

    target: dict[str, Any]
    device: str
    """What a run occupies while it measures: `cpu` or `cuda:0`."""
    float16: bool
    """Whether it has instructions for float16."""
    warning: str | None
    """Why code for it will be slower on this machine than it could be."""
    needs: list[str] = []
    """Of a CPU: its architecture, and the instructions that code for it may use."""


class ListTags(Question, frozen=True):
    """Asks for the target tags that can be tuned for."""


class Tags(msgspec.Struct, tag="tags", frozen=True):
    names: list[str]
    """Sorted, such as nvidia/nvidia-a100."""


class PairsOfBfloat16(NamedTuple):
    """A CPU's instruction that multiplies vectors of pairs of bfloat16, and adds both products of each pair to a float32."""

    feature: str
    """As LLVM names it."""
    lanes: int
    """How many float32 it adds to."""

    @property
    def intrinsic(self) -> str:
        """The name of TVM's tensor intrinsic."""
        return f"dot_{self.lanes}x2_bfloat16"


BFLOAT16 = {
    "x86_64": PairsOfBfloat16("avx512bf16", 16),
    "aarch64": PairsOfBfloat16("bf16", 4),
    "arm64": PairsOfBfloat16("bf16", 4),
}
"""By architecture."""


def pairs_of_bfloat16(needs: Sequence[str]) -> PairsOfBfloat16 | str:
    """The instruction that code for a target may use, given its `TargetInfo.needs`; or why there is none."""
    if not needs:
        return "bfloat16 is for CPUs: the target is a GPU."
    architecture, *features = needs
    found = BFLOAT16.get(architecture)
    if found is None:
        return f"bfloat16 can't be used: Tuneboard knows no instructions for it on {architecture}."
    if found.feature not in features:
        return (
            f"The target's CPU has no bfloat16 instructions ({found.feature}), nor does a bare llvm target: "
            "name a CPU that has them (mcpu), or compute as in the network."
        )
    return found
