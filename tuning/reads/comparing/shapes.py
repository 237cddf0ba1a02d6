"""The parts of a comparison, as the API returns them."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from tuning.models import RunDict
from tuning.reads.curves import LatencyColumns

MatchedBy = Literal["workload", "name", "shapes"]


class SpeedColumns(TypedDict):
    """Trials per second up to each point since the previous one; points by trial number and seconds."""

    number: list[int]
    at_s: list[float]
    speed: list[float]


class ReachedDict(TypedDict):
    """The trial number and the seconds at which a run reached the baseline's estimate."""

    number: int
    at_s: float | None


class SharedDict(TypedDict):
    """The tasks that a run and the baseline have both measured: how many, and the sums of latency × weight in seconds."""

    tasks: int
    total_s: float
    baseline_s: float


class MeasuredBesideDict(TypedDict):
    """A latency that was measured side by side with the baseline's, round by round; what too few rounds tell is null.

    `latency_s` is the median over rounds, with its `noise`, and `total_s` that × weight; of a whole run, both are the sum of its tasks' totals. `ratio` and
    `difference_s` are of the totals. `difference_noise` says how far the ratios within each round lie apart, and `within_noise` whether that explains
    the difference.
    """

    latency_s: float
    total_s: float | None
    noise: float | None
    ratio: float
    difference_s: float | None
    difference_noise: float | None
    within_noise: bool | None


class FailedAgainDict(TypedDict):
    """A best record that couldn't be measured, and why."""

    run: int
    workload_hash: str
    trial: int
    error: str


class BesideDict(TypedDict):
    """The newest measurement of exactly these runs side by side.

    `tasks` is the number of those that could be measured of all runs. The best records of the runs in `outdated` are others since. Others' processes
    used `others_cores` of the machine's `cpus` meanwhile (null if it didn't tell); if `disturbed`, so many that the figures are noisy.
    """

    id: int
    at: str
    machine: str | None
    device: str
    rounds: int
    tasks: int
    failed: list[FailedAgainDict]
    outdated: list[int]
    others_cores: float | None
    cpus: int | None
    disturbed: bool


class ComparedRunDict(TypedDict):
    """A run compared with the baseline; what isn't known is null.

    `comparable` says whether both estimates cover the same tasks of the same network; otherwise there is no ratio or difference.
    `ratio` is estimate ÷ baseline's, `difference_s` estimate − baseline's. `noise` is that of both runs' measurements together, as a share,
    and `within_noise` says whether it explains the difference; null if a run's noise isn't recorded. `common_s` is the latency of the tasks that all
    runs have measured. `end_s` is the duration of tuning; `average_speed` is trials per second over all of it.
    `caught_up` is when the run first was at least as fast as the baseline is now. It and `shared` are null for the baseline itself.
    `beside` is the sum of all its tasks that were measured side by side; null if that wasn't done.
    """

    run: RunDict
    comparable: bool
    end_s: float | None
    estimate: LatencyColumns
    speed: SpeedColumns
    average_speed: float | None
    ratio: float | None
    difference_s: float | None
    noise: float | None
    within_noise: bool | None
    common_s: float | None
    shared: SharedDict | None
    caught_up: ReachedDict | None
    beside: MeasuredBesideDict | None


class ComparedCellDict(TypedDict):
    """A task in one run, where it may be computed by another algorithm and so have another `name`; `total_s` is latency × weight, `trials_share` its share of the run's trials.

    `ratio` is latency ÷ the baseline's, `difference_s` total − the baseline's. `within_noise` says whether noise explains the difference;
    null if that isn't known. `beside` is what was measured side by side.
    """

    task: int
    name: str
    weight: int | None
    trials: int
    failed: int
    trials_share: float | None
    latency_s: float | None
    total_s: float | None
    ratio: float | None
    difference_s: float | None
    within_noise: bool | None
    beside: MeasuredBesideDict | None


class ComparedTaskDict(TypedDict):
    """A task that several runs have; `cells` in the order of the runs, null where a run doesn't have it.

    `matched_by` is `workload` if its hash is the same in all of them, `name` if it was matched by name and shapes, or `shapes` if it is
    a task of different engines whose tensors have the same numbers of elements.
    `contribution_s` is its total in the baseline, otherwise the largest total of any run; null if none is measured.
    """

    name: str
    args: list[dict[str, Any]]
    workload_hash: str
    matched_by: MatchedBy
    contribution_s: float | None
    cells: list[ComparedCellDict | None]


class LoneTaskDict(TypedDict):
    """A task that only one run has."""

    run: int
    name: str
    args: list[dict[str, Any]]
    cell: ComparedCellDict


class DifferentOptionDict(TypedDict):
    """A setting that isn't the same in all runs; `values` in the order of the runs, null where not `recorded`."""

    name: str
    values: list[Any]
    recorded: list[bool]


class CaveatDict(TypedDict):
    """Something that makes the runs less comparable."""

    kind: str
    message: str


class ComparisonDict(TypedDict):
    """A comparison of runs; `common_tasks` is the number of tasks that all of them have measured.

    `tasks` are sorted by contribution, `unmatched` are those of a single run. `options` has only what differs. `side_by_side` is null if these runs
    weren't measured so.
    """

    baseline: int
    runs: list[ComparedRunDict]
    caveats: list[CaveatDict]
    common_tasks: int
    tasks: list[ComparedTaskDict]
    unmatched: list[LoneTaskDict]
    options: list[DifferentOptionDict]
    side_by_side: BesideDict | None
