"""Which machines of a pool are equal, judged by what each measured of the same candidates.

Noise makes a round slower, never faster. So of a machine's rounds of a candidate the fastest is closest to what the machine can do,
and the median shows how far its usual rounds are from that. Two machines differ only by what this leaves: by how
much the fastest round of the slower one exceeds the median of the faster one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

LIMIT = 0.05
"""Machines that differ by more than this share of a latency don't measure one run."""

Rounds = Mapping[str, Sequence[float]]
"""By candidate: seconds per execution of each round."""


@dataclass(frozen=True)
class Verdict:
    """The comparison of some machines."""

    reference: str
    """The machine that the others are compared with: the one that most are equal to, the first of those."""
    differences: dict[str, float]
    """By machine: 0.08 if it is 8 % slower than the reference beyond noise, -0.08 if it is faster."""
    noise: dict[str, float]
    """By machine: by what share its median round is slower than its fastest."""

    @property
    def left_out(self) -> dict[str, float]:
        """The machines that differ too much, with their differences."""
        return {machine: by for machine, by in self.differences.items() if abs(by) > LIMIT}


def compare(measured: Mapping[str, Rounds], reference: str | None = None) -> Verdict:
    """Compare machines by the candidates that all of them measured, with the `reference` if it is given.

    Raises `ValueError` if there is no such candidate, or if a time isn't positive.
    """
    common = sorted(set.intersection(*(set(rounds) for rounds in measured.values()))) if measured else []
    if not common:
        raise ValueError("The machines have measured no candidate in common.")
    if any(seconds <= 0 for rounds in measured.values() for one in common for seconds in rounds[one]):
        raise ValueError("A time must be positive.")
    by = {
        machine: {other: _difference(measured[machine], measured[other], common) for other in measured}
        for machine in measured
    }
    # By the best number of equals; `max` keeps the first of several.
    chosen = reference or max(by, key=lambda machine: sum(abs(each) <= LIMIT for each in by[machine].values()))
    return Verdict(
        chosen,
        {machine: differences[chosen] for machine, differences in by.items()},
        {machine: _noise(rounds, common) for machine, rounds in measured.items()},
    )


def _difference(machine: Rounds, other: Rounds, candidates: Sequence[str]) -> float:
    """By what share the machine is slower than the other, or, if negative, faster: the median over the candidates."""
    return median(_slower(machine[one], other[one]) - _slower(other[one], machine[one]) for one in candidates)


def _slower(rounds: Sequence[float], than: Sequence[float]) -> float:
    return max(0.0, min(rounds) / median(than) - 1)


def _noise(rounds: Rounds, candidates: Sequence[str]) -> float:
    return median(median(rounds[one]) / min(rounds[one]) - 1 for one in candidates)
