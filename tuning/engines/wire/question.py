"""What every short process is asked, and what any of them may answer: see `tuning.engines.oneshot.serving`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What every question says besides what is asked."""

    memory_mb: Annotated[int, Meta(ge=1)]
    """Address space, in MiB."""
    cpu_s: Annotated[int, Meta(ge=1)]
    """Seconds of processor time."""
    quietly: bool = True
    """Whether what is being measured meanwhile goes first; not if it is this process that measures."""


class Step(msgspec.Struct, tag="step", frozen=True):
    """What goes on from now on, in words."""

    text: str


class Refusal(msgspec.Struct, tag="refused", frozen=True):
    """Why it can't be answered; `dims` names the dimensions that a model's file leaves open, when it is about these."""

    error: str
    dims: list[str] | None = None
