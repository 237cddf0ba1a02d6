"""Which tasks make the difference between a run and the baseline."""

from __future__ import annotations

from typing import NamedTuple

from tuning.reads.comparing import ComparedCellDict, ComparedTaskDict, ComparisonDict, MeasuredBesideDict

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
        if (difference_s := _beside(task, place) if beside else _difference(task["cells"][place])) is not None
    ]
    return sorted(found, key=lambda part: -abs(part.difference_s))


def _beside(task: ComparedTaskDict, place: int) -> float | None:
    """Only of what was measured of all runs: sums leave out the others, too."""
    measured = [cell["beside"] for cell in task["cells"] if cell]
    return _difference(measured[place]) if len(measured) == len(task["cells"]) and all(measured) else None


def _difference(figures: ComparedCellDict | MeasuredBesideDict | None) -> float | None:
    return figures["difference_s"] if figures else None
