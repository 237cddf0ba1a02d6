"""What a comparison is made of, as the API shows it."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from tuning.models import RunDict
from tuning.reads.curves import LatencyColumns

MatchedBy = Literal["workload", "name"]


class SpeedColumns(TypedDict):
    """Trials a second between one point and the next, by the trial number and the seconds at which the stretch ended."""

    number: list[int]
    at_s: list[float]
    speed: list[float]


class ReachedDict(TypedDict):
    """The trial and the seconds since its start at which a run had what another one ended with."""

    number: int
    at_s: float


class ComparedRunDict(TypedDict):
    """A run beside the baseline. Null is what isn't known: without both estimates there is no difference.

    `comparable` says whether the two estimates are of the same work: the same network, and the same of its tasks; else there is
    no difference either.
    `ratio` is estimate ÷ baseline's, `difference_s` estimate − baseline's. `common_s` is the latency of the tasks that all
    runs have measured. `end_s` is how long it was tuned; `average_speed` is in trials a second, all of that included.
    `caught_up` is when it first was no slower than the baseline is now; null for the baseline itself.
    """

    run: RunDict
    comparable: bool
    end_s: float
    estimate: LatencyColumns
    speed: SpeedColumns
    average_speed: float | None
    ratio: float | None
    difference_s: float | None
    common_s: float | None
    caught_up: ReachedDict | None


class ComparedCellDict(TypedDict):
    """What one run has of a task; `total_s` is latency × weight, `trials_share` of all of its run's trials.

    `ratio` is its latency ÷ the baseline's, `difference_s` its total − the baseline's.
    """

    task: int
    weight: int
    trials: int
    failed: int
    trials_share: float | None
    latency_s: float | None
    total_s: float | None
    ratio: float | None
    difference_s: float | None


class ComparedTaskDict(TypedDict):
    """A task that several runs have, `cells` in the order of the runs, null where one hasn't it.

    `matched_by` says how it was found to be the same: by its workload's hash in all of them, or by name and shapes.
    `contribution_s` is its part of the baseline's total, or else of the run's where it is largest; null before any is measured.
    """

    name: str
    args: list[dict[str, Any]]
    workload_hash: str
    matched_by: MatchedBy
    contribution_s: float | None
    cells: list[ComparedCellDict | None]


class LoneTaskDict(TypedDict):
    """A task that only one of the runs has."""

    run: int
    name: str
    args: list[dict[str, Any]]
    cell: ComparedCellDict


class DifferentOptionDict(TypedDict):
    """Something that isn't the same in all runs: `values` in their order, of which those not `recorded` are null."""

    name: str
    values: list[Any]
    recorded: list[bool]


class CaveatDict(TypedDict):
    """What doesn't compare, or only with care."""

    kind: str
    message: str


class ComparisonDict(TypedDict):
    """Runs side by side; `common_tasks` is how many tasks all of them have measured.

    `tasks` stand by what they contribute to the total, `unmatched` are the others. `options` has just what differs.
    """

    baseline: int
    runs: list[ComparedRunDict]
    caveats: list[CaveatDict]
    common_tasks: int
    tasks: list[ComparedTaskDict]
    unmatched: list[LoneTaskDict]
    options: list[DifferentOptionDict]
