"""Compare runs with a baseline, task by task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tuning.estimate import total
from tuning.models import Run, Task
from tuning.models.task import of_network
from tuning.noise import Difference, combined
from tuning.reads.curves import LatencyColumns

from .differences import caveats, different_options
from .lines import Lines, lines_of
from .matching import Match, matched
from .shapes import (
    ComparedCellDict,
    ComparedRunDict,
    ComparedTaskDict,
    ComparisonDict,
    LoneTaskDict,
    MeasuredBesideDict,
    ReachedDict,
    SharedDict,
)
from .side_by_side import Beside, latest


class Sums(NamedTuple):
    """What a run's tasks add up to: those that all runs have measured, those that it shares with the baseline, and what was measured anew."""

    common_s: float | None
    shared: SharedDict | None
    beside: MeasuredBesideDict | None


def compare(runs: Sequence[Run], baseline: Run) -> ComparisonDict:
    """Compare runs from `runs_of` with one of them. The cost doesn't depend on the number of trials."""
    base = runs.index(baseline)
    matches = matched([of_network(run.tasks.all()) for run in runs])
    common = [match for match in matches if _measured_by_all(match, len(runs))]
    lines = [lines_of(run) for run in runs]
    finished = latest(runs).finished
    beside = Beside(finished, runs, baseline) if finished else None
    return {
        "baseline": baseline.pk,
        "runs": [
            _compared(
                run,
                baseline,
                lines[position],
                lines[base].estimate,
                Sums(
                    _common_total(common, position),
                    None if position == base else _shared(matches, position, base),
                    beside.whole(run) if beside else None,
                ),
            )
            for position, run in enumerate(runs)
        ],
        "caveats": caveats(runs, matches),
        "common_tasks": len(common),
        "tasks": _by_contribution(_task(match, runs, base, beside) for match in matches if len(match.tasks) > 1),
        "unmatched": [_lone(match, runs) for match in matches if len(match.tasks) == 1],
        "options": different_options(runs),
        "side_by_side": beside.summary() if beside else None,
    }


def _measured_by_all(match: Match, runs: int) -> bool:
    return len(match.tasks) == runs and all(task.best_latency_s is not None for task in match.tasks.values())


def _compared(run: Run, baseline: Run, lines: Lines, base: LatencyColumns, sums: Sums) -> ComparedRunDict:
    estimate, speed = lines
    comparable = _same_work(run, baseline)
    own, other = _last(estimate), _last(base) if comparable else None
    noise = None if run == baseline else combined(run.noise, baseline.noise)
    ratio = own / other if own is not None and other else None
    return {
        "run": run.to_dict(tasks=run.tasks.all()),
        "comparable": comparable,
        "end_s": _end(run, estimate["at_s"], speed["at_s"]),
        "estimate": estimate,
        "speed": speed,
        "average_speed": run.average_speed,
        "ratio": ratio,
        "difference_s": own - other if own is not None and other is not None else None,
        "noise": noise,
        "within_noise": _within_noise(ratio, noise),
        "common_s": sums.common_s,
        "shared": sums.shared,
        "caught_up": None if run == baseline or other is None else _reached(estimate, other),
        "beside": sums.beside,
    }


def _within_noise(ratio: float | None, noise: float | None) -> bool | None:
    return None if ratio is None else Difference(ratio - 1, noise).within_noise


def _end(run: Run, *times: Sequence[float | None]) -> float | None:
    """When tuning ended; None if no times are recorded."""
    known = [at_s for at_s in (run.elapsed_s, *(line[-1] for line in times if line)) if at_s is not None]
    return max(known, default=None)


def _common_total(common: Sequence[Match], position: int) -> float | None:
    return total(match.tasks[position].weighted_latency_s for match in common)


def _shared(matches: Sequence[Match], position: int, base: int) -> SharedDict | None:
    """What both have measured; None without such a task, or if none has a recorded weight."""
    pairs = [(match.tasks[position], match.tasks[base]) for match in matches if {position, base} <= match.tasks.keys()]
    parts = [(one.weighted_latency_s, other.weighted_latency_s) for one, other in pairs]
    known = [(one, other) for one, other in parts if one is not None and other is not None]
    if not known:
        return None
    return {
        "tasks": len(known),
        "total_s": sum(one for one, _ in known),
        "baseline_s": sum(other for _, other in known),
    }


def _same_work(run: Run, other: Run) -> bool:
    """Whether the two estimates are sums over the same tasks."""
    whole = all(each.tasks_chosen == each.tasks_total for each in (run, other))
    known = run.network_id is not None and run.network_id == other.network_id
    return known and (whole or _chosen_tasks(run) == _chosen_tasks(other))


def _chosen_tasks(run: Run) -> set[int]:
    return {task.index for task in run.tasks.all() if task.chosen and not task.computes}


def _last(estimate: LatencyColumns) -> float | None:
    return estimate["latency_s"][-1] if estimate["latency_s"] else None


def _reached(estimate: LatencyColumns, latency_s: float) -> ReachedDict | None:
    for number, at_s, value in zip(estimate["number"], estimate["at_s"], estimate["latency_s"], strict=True):
        if value <= latency_s:
            return {"number": number, "at_s": at_s}
    return None


def _task(match: Match, runs: Sequence[Run], base: int, beside: Beside | None) -> ComparedTaskDict:
    other = match.tasks.get(base)
    totals = [part for task in match.tasks.values() if (part := task.weighted_latency_s) is not None]
    own = other.weighted_latency_s if other else None
    return {
        "name": match.first.name,
        "args": match.first.args,
        "workload_hash": match.first.function,
        "matched_by": match.by,
        "contribution_s": own if own is not None else max(totals, default=None),
        "cells": [
            _cell(match.tasks[at], run, other, beside) if at in match.tasks else None for at, run in enumerate(runs)
        ],
    }


def _cell(task: Task, run: Run, base: Task | None, beside: Beside | None = None) -> ComparedCellDict:
    own, other = task.best_latency_s, base.best_latency_s if base else None
    own_total, base_total = task.weighted_latency_s, base.weighted_latency_s if base else None
    ratio = own / other if own is not None and other else None
    noise = combined(run.noise, base.run.noise) if base and base.run != run else None
    return {
        "task": task.index,
        "name": task.name,
        "weight": task.weight,
        "trials": task.trials,
        "failed": task.failed,
        "trials_share": task.trials / run.trials_done if run.trials_done else None,
        "latency_s": own,
        "total_s": own_total,
        "ratio": ratio,
        "difference_s": own_total - base_total if own_total is not None and base_total is not None else None,
        "within_noise": _within_noise(ratio, noise),
        "beside": beside.task(run, task.function) if beside else None,
    }


def _lone(match: Match, runs: Sequence[Run]) -> LoneTaskDict:
    ((position, task),) = match.tasks.items()
    return {"run": runs[position].pk, "name": task.name, "args": task.args, "cell": _cell(task, runs[position], None)}


def _by_contribution(tasks: Iterable[ComparedTaskDict]) -> list[ComparedTaskDict]:
    return sorted(
        tasks, key=lambda task: -1.0 if task["contribution_s"] is None else task["contribution_s"], reverse=True
    )
