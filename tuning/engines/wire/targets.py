"""Targets: what `tuning.engines.oneshot.resolving` and `tuning.engines.oneshot.listing.tags` are asked, and what they answer."""

from __future__ import annotations

from typing import Any

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
