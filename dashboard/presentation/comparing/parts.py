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


def place_of(comparison: ComparisonDict, run: int) -> int:
    """The position of the run with this id."""
    return [one["run"]["id"] for one in comparison["runs"]].index(run)


def settled(comparison: ComparisonDict, run: int) -> bool:
    """Whether the run and the baseline were measured side by side, with the best records that they have now. Then this counts."""
    found, keys = comparison["side_by_side"], (run, comparison["baseline"])
    if found is None or not {*found["outdated"]}.isdisjoint(keys):
        return False
    return all(comparison["runs"][place_of(comparison, key)]["beside"] for key in keys)


def parts(comparison: ComparisonDict, run: int) -> list[Part]:
    """Largest difference first, faster or slower: of what was measured side by side if that is `settled`, else of best latencies."""
    place, beside = place_of(comparison, run), settled(comparison, run)
    found = [
        Part(number(comparison, task)[1], task["name"], difference_s)
        for task in comparison["tasks"]
        if (cell := task["cells"][place])
        and (found := cell["beside"] if beside else cell)
        and (difference_s := found["difference_s"]) is not None
    ]
    return sorted(found, key=lambda part: -abs(part.difference_s))
