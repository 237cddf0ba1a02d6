"""Runs side by side: which of their tasks are the same, how far their latencies are apart, and what doesn't compare."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from django.db.models import Prefetch
from typing_extensions import TypedDict

from .curves import CurvesDict, LatencyColumns, curves
from .models import Run, RunDict, Task
from .validation import Invalid

FEWEST, MOST = 2, 8
"""Runs of a comparison: as many as there are colours that everybody tells apart."""
POINTS = 512
"""Trials of a run that its speed is taken from; its estimate is exact."""
WINDOWS, FEW, BATCH = 48, 8, 16
"""Into which these are parted for the speed: fewer in a short run, so that each has about a batch, whose trials come in bursts."""
KEPT = 64
"""Runs whose lines are kept, each up to some trial: those that were looked at last."""
LONGEST_NUMBER = 18
"""Digits of a key that every database can hold."""

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


class Lines(NamedTuple):
    """What is drawn of a run over trials and time."""

    estimate: LatencyColumns
    speed: SpeedColumns


@dataclass
class Match:
    """Tasks of several runs that are the same, by the run's position; of each run at most one."""

    tasks: dict[int, Task]
    by: MatchedBy = "workload"

    @property
    def first(self) -> Task:
        """Of the first run that has it."""
        return self.tasks[min(self.tasks)]


def usable(text: str) -> list[int]:
    """Of what `text` names, the runs that there are, each once and no more than can be compared."""
    keys = dict.fromkeys(int(one) for one in _named(text)[: 4 * MOST] if _is_number(one))
    there = set(Run.objects.filter(pk__in=keys).values_list("pk", flat=True))
    return [key for key in keys if key in there][:MOST]


def runs_of(text: str) -> list[Run]:
    """The runs that `1,2,3` names, in that order, with their tasks. Raises `Invalid` for `runs`, saying what is wrong."""
    keys = _keys(text)
    tasks = Prefetch("tasks", Task.objects.defer("tensorir").order_by("index"))
    found = Run.objects.select_related("network", "created_by").prefetch_related(tasks).in_bulk(keys)
    if lost := [key for key in keys if key not in found]:
        there = "There is no run" if len(lost) == 1 else "There are no runs"
        raise Invalid({"runs": f"{there} {_listed(lost)}: deleted, or never there."})
    return [found[key] for key in keys]


def baseline_of(runs: Sequence[Run], key: int | None) -> Run:
    """The run that the others are compared with; the first unless another is chosen. Raises `Invalid` for `baseline`."""
    for run in runs:
        if key in (None, run.pk):
            return run
    raise Invalid({"baseline": f"Run {key} is not among the runs that are compared."})


def compare(runs: Sequence[Run], baseline: Run) -> ComparisonDict:
    """The runs, as `runs_of` gives them, beside one of them. Its cost doesn't grow with the number of their trials."""
    base = runs.index(baseline)
    matches = matched([list(run.tasks.all()) for run in runs])
    common = [match for match in matches if _measured_by_all(match, len(runs))]
    lines = [_lines(run) for run in runs]
    return {
        "baseline": baseline.pk,
        "runs": [
            _compared(run, baseline, lines[position], lines[base].estimate, _common_total(common, position))
            for position, run in enumerate(runs)
        ],
        "caveats": _caveats(runs, matches),
        "common_tasks": len(common),
        "tasks": _by_contribution(_task(match, runs, base) for match in matches if len(match.tasks) > 1),
        "unmatched": [_lone(match, runs) for match in matches if len(match.tasks) == 1],
        "options": _different_options(runs),
    }


def matched(tasks: Sequence[Sequence[Task]]) -> list[Match]:
    """Each run's tasks beside those of the others: by workload, and what that leaves apart by name and shapes."""
    alike: dict[Hashable, list[Match]] = defaultdict(list)
    matches = []
    for group in _by_workload(tasks):
        match = Match(group)
        key = match.first.name, _shapes(match.first)
        home = next((one for one in alike[key] if one.tasks.keys().isdisjoint(group)), None)
        if home:
            home.tasks |= group
            home.by = "name"
        else:
            alike[key].append(match)
            matches.append(match)
    return matches


def _by_workload(tasks: Sequence[Sequence[Task]]) -> Iterable[dict[int, Task]]:
    """A workload that a run has twice is paired in order."""
    groups: dict[Hashable, dict[int, Task]] = {}
    for position, those in enumerate(tasks):
        seen: Counter[str] = Counter()
        for task in those:
            seen[task.workload_hash] += 1
            groups.setdefault((task.workload_hash, seen[task.workload_hash]), {})[position] = task
    return groups.values()


def _shapes(task: Task) -> Hashable:
    return tuple((tuple(arg["shape"]), arg["dtype"]) for arg in task.args)


def _measured_by_all(match: Match, runs: int) -> bool:
    return len(match.tasks) == runs and all(task.best_latency_s is not None for task in match.tasks.values())


_kept: OrderedDict[Hashable, Lines] = OrderedDict()


def _lines(run: Run) -> Lines:
    """The run's lines up to its last trial: the same for all who watch it, and for good once it has ended."""
    # A new database has other runs by the same keys.
    key = run.pk, run.created_at, run.trials_done
    lines = _kept.pop(key, None) or _drawn(run)
    _kept[key] = lines
    if len(_kept) > KEPT:
        _kept.popitem(last=False)
    return lines


def _drawn(run: Run) -> Lines:
    shown = curves(run, POINTS)
    return Lines(shown["estimate"], _speed(shown))


def _compared(run: Run, baseline: Run, lines: Lines, base: LatencyColumns, common_s: float | None) -> ComparedRunDict:
    estimate, speed = lines
    comparable = _same_work(run, baseline)
    own, other = _last(estimate), _last(base) if comparable else None
    return {
        "run": run.to_dict(tasks=run.tasks.all()),
        "comparable": comparable,
        "end_s": max([run.elapsed_s, *estimate["at_s"][-1:], *speed["at_s"][-1:]]),
        "estimate": estimate,
        "speed": speed,
        "average_speed": run.average_speed,
        "ratio": own / other if own is not None and other else None,
        "difference_s": own - other if own is not None and other is not None else None,
        "common_s": common_s,
        "caught_up": None if run == baseline or other is None else _reached(estimate, other),
    }


def _common_total(common: Sequence[Match], position: int) -> float | None:
    return sum(_total(match.tasks[position]) or 0.0 for match in common) if common else None


def _same_work(run: Run, other: Run) -> bool:
    """Whether two estimates are sums over the same tasks."""
    whole = all(each.tasks_chosen == each.tasks_total for each in (run, other))
    return run.network_id == other.network_id and (whole or _chosen_tasks(run) == _chosen_tasks(other))


def _chosen_tasks(run: Run) -> set[int]:
    return {task.index for task in run.tasks.all() if task.chosen}


def _last(estimate: LatencyColumns) -> float | None:
    return estimate["latency_s"][-1] if estimate["latency_s"] else None


def _reached(estimate: LatencyColumns, latency_s: float) -> ReachedDict | None:
    for number, at_s, value in zip(estimate["number"], estimate["at_s"], estimate["latency_s"], strict=True):
        if value <= latency_s:
            return {"number": number, "at_s": at_s}
    return None


def _speed(shown: CurvesDict) -> SpeedColumns:
    """Over stretches of equally many trials, the first from the run's start on."""
    allocations = [task["allocation"] for task in shown["tasks"]]
    points = sorted(point for one in allocations for point in zip(one["number"], one["at_s"], strict=True))
    stretch = max(1, -(-len(points) // WINDOWS), min(BATCH, len(points) // FEW))
    columns: SpeedColumns = {"number": [], "at_s": [], "speed": []}
    before = (0, 0.0)
    for number, at_s in points[stretch - 1 :: stretch]:
        # Trials that end at once are counted in the next stretch.
        if at_s > before[1]:
            columns["number"].append(number)
            columns["at_s"].append(at_s)
            columns["speed"].append((number - before[0]) / (at_s - before[1]))
            before = (number, at_s)
    return columns


def _task(match: Match, runs: Sequence[Run], base: int) -> ComparedTaskDict:
    other = match.tasks.get(base)
    totals = [total for task in match.tasks.values() if (total := _total(task)) is not None]
    own = _total(other) if other else None
    return {
        "name": match.first.name,
        "args": match.first.args,
        "workload_hash": match.first.workload_hash,
        "matched_by": match.by,
        "contribution_s": own if own is not None else max(totals, default=None),
        "cells": [_cell(match.tasks[at], run, other) if at in match.tasks else None for at, run in enumerate(runs)],
    }


def _cell(task: Task, run: Run, base: Task | None) -> ComparedCellDict:
    own, other = task.best_latency_s, base.best_latency_s if base else None
    total, base_total = _total(task), _total(base) if base else None
    return {
        "task": task.index,
        "weight": task.weight,
        "trials": task.trials,
        "failed": task.failed,
        "trials_share": task.trials / run.trials_done if run.trials_done else None,
        "latency_s": own,
        "total_s": total,
        "ratio": own / other if own is not None and other else None,
        "difference_s": total - base_total if total is not None and base_total is not None else None,
    }


def _total(task: Task) -> float | None:
    return None if task.best_latency_s is None else task.best_latency_s * task.weight


def _lone(match: Match, runs: Sequence[Run]) -> LoneTaskDict:
    ((position, task),) = match.tasks.items()
    return {"run": runs[position].pk, "name": task.name, "args": task.args, "cell": _cell(task, runs[position], None)}


def _by_contribution(tasks: Iterable[ComparedTaskDict]) -> list[ComparedTaskDict]:
    return sorted(
        tasks, key=lambda task: -1.0 if task["contribution_s"] is None else task["contribution_s"], reverse=True
    )


# --- what differs


def _settings(run: Run) -> dict[str, Any]:
    """All that a run was told, and with what it was measured, named as in the API."""
    parts = {"network_options": run.network.options, "options": run.options, "versions": run.versions}
    return {
        "network": run.network.name,
        "engine": run.engine,
        "target": run.target,
        "device": run.device,
        "trials_budget": run.trials_budget,
        "time_limit_s": run.time_limit_s,
    } | {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def _different_options(runs: Sequence[Run]) -> list[DifferentOptionDict]:
    settings = [_settings(run) for run in runs]
    names = dict.fromkeys(name for each in settings for name in each)
    rows: list[DifferentOptionDict] = [
        {"name": name, "values": [each.get(name) for each in settings], "recorded": [name in each for each in settings]}
        for name in names
    ]
    return [
        row for row in rows if not all(row["recorded"]) or any(value != row["values"][0] for value in row["values"])
    ]


# --- what doesn't compare


class Aspect(NamedTuple):
    """Something that runs may differ in, so that their latencies don't quite compare."""

    kind: str
    plural: str
    key: Callable[[Run], Hashable]
    """Tells runs apart; None is what isn't known, which differs from nothing."""
    called: Callable[[Run], str]
    meaning: str


ASPECTS = (
    Aspect(
        "network",
        "networks",
        lambda run: run.network_id,
        lambda run: " ".join([run.network.name, *(f"{name}={value}" for name, value in run.network.options.items())]),
        "Their estimated latencies are of different work: only the tasks that they share compare.",
    ),
    Aspect(
        "target",
        "targets",
        lambda run: run.target_fingerprint,
        lambda run: _target_name(run.target),
        "A latency tells as much of the target as of the schedule.",
    ),
    Aspect(
        "device",
        "devices",
        lambda run: run.device,
        lambda run: run.device,
        "They were measured in different places: speeds and times depend on these, too.",
    ),
    Aspect(
        "engine",
        "engines",
        lambda run: run.engine,
        lambda run: run.engine,
        "Each counts trials and time in its own way; latencies compare.",
    ),
    Aspect(
        "tvm",
        "versions of TVM",
        lambda run: run.versions.get("apache-tvm"),
        lambda run: run.versions["apache-tvm"],
        "A task that has another workload in each is matched by its name and shapes.",
    ),
)


def _target_name(target: Any) -> str:
    if not isinstance(target, dict):
        return str(target)
    return str(target.get("tag") or target.get("mcpu") or target.get("arch") or target.get("kind"))


def _caveats(runs: Sequence[Run], matches: Sequence[Match]) -> list[CaveatDict]:
    found = [_difference(runs, aspect) for aspect in ASPECTS]
    for run in runs:
        found += [_synthetic(run), _unfinished(run), _chosen(run), _warm(run)]
    if any(len({task.weight for task in match.tasks.values()}) > 1 for match in matches):
        found.append(_caveat("weight", "Some tasks occur more often in one network than in another: totals show that."))
    return [caveat for caveat in found if caveat]


def _difference(runs: Sequence[Run], aspect: Aspect) -> CaveatDict | None:
    groups: dict[Hashable, list[Run]] = defaultdict(list)
    for run in runs:
        if (key := aspect.key(run)) is not None:
            groups[key].append(run)
    if len(groups) < 2:
        return None
    those = ", ".join(f"{aspect.called(group[0])} ({_numbered(group)})" for group in groups.values())
    return _caveat(aspect.kind, f"Different {aspect.plural}: {those}. {aspect.meaning}")


def _synthetic(run: Run) -> CaveatDict | None:
    if not run.synthetic:
        return None
    return _caveat("synthetic", f"Run {run.pk} is synthetic: its figures are made up, not measured.")


def _unfinished(run: Run) -> CaveatDict | None:
    """Why a run has no estimate."""
    if run.estimated_latency_s is not None:
        return None
    if not run.trials_done:
        return _caveat("no_trial", f"Run {run.pk} has no trial yet.")
    if run.trials_failed == run.trials_done:
        return _caveat("no_valid_trial", f"Run {run.pk} has no valid trial: all of its {run.trials_done} failed.")
    measured = f"{run.tasks_measured} of its {run.tasks_chosen} tasks are measured"
    return _caveat("no_estimate", f"Run {run.pk} has no estimated latency yet: {measured}.")


def _chosen(run: Run) -> CaveatDict | None:
    if run.tasks_chosen == run.tasks_total:
        return None
    return _caveat(
        "chosen",
        f"Run {run.pk} tunes {run.tasks_chosen} of its {run.tasks_total} tasks: its estimate is of these alone.",
    )


def _warm(run: Run) -> CaveatDict | None:
    if not run.warm_start:
        return None
    sources = _listed(run.warm_start["runs"])
    runs = "run" if len(run.warm_start["runs"]) == 1 else "runs"
    began = f"{len(run.warm_start['tasks'])} of its tasks with records of {runs} {sources}"
    return _caveat("warm_start", f"Run {run.pk} began {began}: its first trials had a head start.")


def _caveat(kind: str, message: str) -> CaveatDict:
    return {"kind": kind, "message": message}


def _numbered(runs: Sequence[Run]) -> str:
    return f"{'run' if len(runs) == 1 else 'runs'} {_listed([run.pk for run in runs])}"


def _listed(keys: Sequence[int]) -> str:
    *others, last = map(str, keys)
    return f"{', '.join(others)} and {last}" if others else last


# --- which runs


def _named(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER


def _keys(text: str) -> list[int]:
    named = _named(text)
    if not FEWEST <= len(named) <= MOST:
        chose = f": these are {len(named)}" if len(named) > 1 else ": this is one" if named else ""
        raise Invalid({"runs": f"Choose {FEWEST} to {MOST} runs{chose}."})
    if odd := next((one for one in named if not _is_number(one)), None):
        raise Invalid({"runs": f"“{odd[:40]}” is no run's number. Name them as in runs=1,2."})
    keys = [int(one) for one in named]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise Invalid({"runs": f"Run {twice} is named twice."})
    return keys
