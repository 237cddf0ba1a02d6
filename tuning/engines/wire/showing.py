"""What `tuning.engines.oneshot.showing` is asked, and what it answers."""

from __future__ import annotations

from typing import Any

import msgspec

from . import question


class Question(question.Question, frozen=True):
    """Which records, each as in `TrialMeasured.record`."""

    records: list[str]


class Decision(msgspec.Struct, frozen=True):
    """What a sampling instruction chose."""

    instruction: str
    """As the schedule's code calls it."""
    of: str
    """The loop or block that it is about, as the function called it just then, or the annotation that it gives a value."""
    block: str | None
    """To which the loop or the annotation belongs."""
    extent: int | None
    """Of the loop."""
    decision: Any
    """TVM's own: factors from the outermost loop to the innermost, or the position of the choice."""
    choice: str
    """The same in words."""
    among: list[str]
    """What there was to choose from, where that is a list."""


class Shown(msgspec.Struct, frozen=True, tag="shown"):
    """A record's schedule."""

    code: str
    """The trace as Python, as TVM's `Trace.show` prints it."""
    decisions: list[Decision]
    tensorir: str
    """The function with the schedule applied, as TVMScript."""
    packs: bool
    """Whether blocks of it pack weights: done once, when the network is compiled."""
