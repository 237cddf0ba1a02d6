"""`tuning.engines.oneshot.side_by_side` answers `MeasureInTurn` with `Doing`s and one `InTurn`. Times are in seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Seconds
from tuning.engines.wire.question import Question

LEAST_ROUNDS, MOST_ROUNDS = 5, 15
"""Of fewer rounds noise can't be told, so there are as many whatever time they take; more than the latter add little."""
PhaseName = Literal["loading", "building", "measuring"]


class MeasureInTurn(Question, frozen=True, kw_only=True):
    """Asks to build records, and to measure them in rounds, each as trials are at full length."""

    target: dict[str, Any]
    records: Annotated[list[str], Meta(min_length=1)]
    """Each as in `TrialMeasured.record`. Those that stand side by side are measured right after each other."""
    seconds: float
    """For all rounds together, of which there are at least `LEAST_ROUNDS`."""
    cold_bytes: list[int] = []
    """For each record, how many bytes an inference touches between two uses of its weights; empty or 0 if these are in the caches."""
    options: Options = Options()
    """How all of them are built and measured, whatever the options of their runs."""


class Doing(msgspec.Struct, tag="doing", frozen=True):
    """What the process is doing from now on; `progress` from 0 to 1, or None if it isn't known."""

    phase: PhaseName
    progress: float | None = None


class Again(msgspec.Struct, frozen=True):
    """A record's latency in each round; or none of them, and why it couldn't be measured."""

    latencies_s: list[Seconds]
    error: str | None = None


class InTurn(msgspec.Struct, tag="in_turn", frozen=True):
    """What was measured of each record, in the order of the question."""

    records: list[Again]
    versions: dict[str, str]
    """Of the packages that measured it."""
