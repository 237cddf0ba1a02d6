"""What follows from a comparison, in a sentence or two for each run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from dashboard.presentation.units import latency, percent
from tuning.noise import Difference
from tuning.reads.comparing import ComparedRunDict, ComparisonDict
from tuning.wording import listed, plus_minus

from .labels import baseline_of
from .parts import Part, parts, settled

MOST_NAMED = 3
MAIN_SHARE = 0.5
"""No more than so many tasks are named, and only if they make this share of a difference."""
NOTABLE = 0.1
"""What works against a difference is mentioned from this share of it."""
DOUBTFUL = 0.1
"""A difference below this may well be noise, if nobody knows how large that is."""
UNKNOWN_NOISE = " The noise of these measurements isn’t recorded, so that may be chance."
EQUAL = 0.0005
"""Below this, a difference is shown as 0.0 %."""


class Conclusion(NamedTuple):
    """What is said of a run, and whether it is `good` or `bad`; empty if neither, or unknown."""

    run: int
    place: int
    text: str
    tone: str


class Totals(NamedTuple):
    """Seconds that the same tasks take in a run and in the baseline, and which tasks these are, if they aren't all.

    `change` is the difference as a share, and `noise` that of it.
    """

    own_s: float
    base_s: float
    over: str
    change: float
    noise: float | None


def conclusions(comparison: ComparisonDict) -> list[Conclusion]:
    """One for each run that isn't the baseline."""
    base = baseline_of(comparison)
    return [
        _conclusion(comparison, run, base, place) for place, run in enumerate(comparison["runs"]) if run is not base
    ]


def _conclusion(comparison: ComparisonDict, run: ComparedRunDict, base: ComparedRunDict, place: int) -> Conclusion:
    key, other = run["run"]["id"], base["run"]["id"]
    totals = _beside(comparison, run, base) or _totals(run, base)
    if totals is None:
        return Conclusion(key, place, f"#{key} and #{other} have measured no task in common.", "")
    change = totals.change
    where = _capitalized(_so_far(run, base) + totals.over)
    if abs(change) < EQUAL:
        return Conclusion(key, place, f"{where}#{key} takes as long as #{other}: {latency(totals.own_s)}.", "")
    how = f"{percent(abs(change))} {'less' if change < 0 else 'more'} time than #{other}"
    text = f"{where}#{key} takes {how}: {latency(totals.own_s)} instead of {latency(totals.base_s)}."
    if (noise := totals.noise) is None:
        text += UNKNOWN_NOISE if abs(change) < DOUBTFUL else ""
    elif Difference(change, noise).within_noise:
        return Conclusion(key, place, f"{text} That is within noise ({plus_minus(noise)}): neither is faster.", "")
    reasons = _reasons(parts(comparison, key), -1 if change < 0 else 1)
    return Conclusion(key, place, f"{text} {reasons}".strip(), "good" if change < 0 else "bad")


def _totals(run: ComparedRunDict, base: ComparedRunDict) -> Totals | None:
    """Of the whole network if both estimates cover the same tasks of it, otherwise of what both have measured."""
    own_s, base_s = run["run"]["estimated_latency_s"], base["run"]["estimated_latency_s"]
    if run["comparable"] and own_s is not None and base_s:
        return Totals(own_s, base_s, "", own_s / base_s - 1, run["noise"])
    if (shared := run["shared"]) is None:
        return None
    count = shared["tasks"]
    which = "the one task" if count == 1 else f"the {count:,} tasks"
    own_s, base_s = shared["total_s"], shared["baseline_s"]
    return Totals(own_s, base_s, f"over {which} that both have measured, ", own_s / base_s - 1, run["noise"])


def _beside(comparison: ComparisonDict, run: ComparedRunDict, base: ComparedRunDict) -> Totals | None:
    """What was measured side by side, which comes before all else; None if it wasn't, or if either has better records since."""
    found, own, other = comparison["side_by_side"], run["beside"], base["beside"]
    if not (settled(comparison, run["run"]["id"]) and found and own and other):
        return None
    measured, of = found["tasks"], base["run"]["tasks_total"]
    over = "" if measured == of else f" over {measured:,} of {of:,} tasks"
    over = f"measured side by side{over}, "
    return Totals(own["latency_s"], other["latency_s"], over, own["ratio"] - 1, own["difference_noise"])


def _reasons(differences: Sequence[Part], sign: int) -> str:
    """Which tasks make the gain (`sign` is −1) or the loss (1), and what works against it."""
    amounts = [(part.number, part.difference_s * sign) for part in differences]
    making = [(number, amount) for number, amount in amounts if amount > 0]
    if not making or len(differences) == 1:
        return ""
    total_s = sum(amount for _, amount in making)
    main = _main([amount / total_s for _, amount in making])
    share = percent(sum(amount for _, amount in making[: main or 1]) / total_s)
    what = "gain" if sign < 0 else "loss"
    if main:
        text = f"{_tasks([number for number, _ in making[:main]])} make{'s' if main == 1 else ''} {share} of the {what}"
    else:
        text = f"The {what} is spread over {len(making):,} tasks; the largest part, {share}, is task {making[0][0]}’s"
    return f"{text}{_opposed([-amount for _, amount in amounts if amount < 0], total_s, sign)}."


def _opposed(amounts: Sequence[float], total_s: float, sign: int) -> str:
    """What other tasks take away from a gain, or make up for of a loss."""
    if sum(amounts) < NOTABLE * total_s:
        return ""
    which = "another one takes" if len(amounts) == 1 else f"{len(amounts):,} others take"
    return f"; {which} {latency(sum(amounts))} {'more' if sign < 0 else 'less'}"


def _main(shares: Sequence[float]) -> int:
    """How many of the largest shares make most of the whole; 0 if it takes too many."""
    reached = accumulate(shares[:MOST_NAMED])
    return next((count for count, share in enumerate(reached, 1) if share >= MAIN_SHARE), 0)


def _tasks(numbers: Sequence[str]) -> str:
    return f"Task {numbers[0]}" if len(numbers) == 1 else f"Tasks {listed(numbers)}"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _so_far(*runs: ComparedRunDict) -> str:
    return "so far, " if any(run["run"]["status"] in ("running", "stopping") for run in runs) else ""
