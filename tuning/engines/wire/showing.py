"""Schedules: what `tuning.engines.oneshot.showing` is asked, and what it answers."""

from __future__ import annotations

from typing import Any

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
