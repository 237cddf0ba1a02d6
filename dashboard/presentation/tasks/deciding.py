"""Which decisions matter, in words and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboard.presentation.units import percent
from tuning.reads.records import Decided, Space
from tuning.schedules.importance import LEAST_TRIALS

from .parallel import FASTEST, picture

MOST_SHARES = 10


@dataclass(frozen=True)
class Share:
    """What a choice explains, from 0 to 1; it `counts` if chance doesn't give as much."""

    of: str
    part: str
    share: float
    counts: bool


def context(found: Decided, chosen: int) -> dict[str, Any]:
    """For the template: the design space of that number, from 1."""
    shared = {"spaces": [len(space.trials) for space in found.spaces], "unread": found.unread, "step": found.step}
    if not found.spaces:
        return shared
    space = found.spaces[chosen - 1]
    shares = _shares(space)
    return shared | {
        "space": space,
        "chosen": chosen,
        "trials": len(space.trials),
        "shares": shares[:MOST_SHARES],
        "words": _words(space, shares),
        "picture": picture(space),
        "ranks": [name for _, name in FASTEST],
    }


def _shares(space: Space) -> list[Share]:
    if space.importance is None:
        return []
    chance = space.importance.chance
    return [Share(of, part, share, share > chance) for (of, part), share in space.importance.shares]


def _words(space: Space, shares: list[Share]) -> str:
    if (count := len(space.trials)) < LEAST_TRIALS:
        few = f"{count} trial{'' if count == 1 else 's'}"
        return f"Which decisions matter can’t be told from {few}: at least {LEAST_TRIALS} are needed."
    if not shares:
        return "All trials decided the same, or were equally fast."
    first = shares[0]
    if not first.counts:
        return "No single decision explains more of the spread of latencies than chance would."
    part = f" ({first.part})" if first.part else ""
    return f"{first.of[0].upper()}{first.of[1:]}{part} explains {percent(first.share)} of the spread of latencies."
