"""Compare the decisions of two schedules of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from tuning.reads.showing import Decision


@dataclass(frozen=True)
class Pair:
    """The same decision in both schedules; None if a schedule's design space doesn't have it."""

    left: Decision | None
    right: Decision | None

    @property
    def asked(self) -> Decision:
        """Either one, for what both have in common."""
        decision = self.left or self.right
        assert decision
        return decision

    @property
    def differs(self) -> bool:
        return (self.left and self.left.choice) != (self.right and self.right.choice)


def paired(left: Sequence[Decision], right: Sequence[Decision]) -> list[Pair]:
    """The decisions in the order of the schedules."""
    pairs: list[Pair] = []
    matcher = SequenceMatcher(None, [_question(one) for one in left], [_question(one) for one in right])
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        gone, come = left[i:i_end], right[j:j_end]
        if kind == "equal":
            pairs += [Pair(one, other) for one, other in zip(gone, come, strict=True)]
        else:
            pairs += [Pair(one, None) for one in gone] + [Pair(None, one) for one in come]
    return pairs


def _question(decision: Decision) -> tuple[str, str, str | None]:
    return decision.instruction, decision.of, decision.block
