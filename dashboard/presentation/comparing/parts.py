"""Which tasks make the difference between a run and the baseline."""

from __future__ import annotations

from typing import NamedTuple

from tuning.reads.comparing import ComparisonDict

from .labels import number


class Part(NamedTuple):
    """A task that both runs have measured: its number and name, and how many seconds × weight it takes more than in the baseline."""

    number: str
    name: str
    difference_s: float


def parts(comparison: ComparisonDict, run: int) -> list[Part]:
    """Largest difference first, faster or slower."""
    place = [one["run"]["id"] for one in comparison["runs"]].index(run)
    found = [
        Part(number(comparison, task)[1], task["name"], cell["difference_s"])
        for task in comparison["tasks"]
        if (cell := task["cells"][place]) and cell["difference_s"] is not None
    ]
    return sorted(found, key=lambda part: -abs(part.difference_s))
