"""How the settings of runs differ, and what that means for comparing their latencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from tuning.models import Run
from tuning.wording import SIMULATED, numbered, target_names

from .matching import Match
from .shapes import CaveatDict, DifferentOptionDict


def different_options(runs: Sequence[Run]) -> list[DifferentOptionDict]:
    """The settings and versions that aren't the same in all of the runs."""
    settings = [_settings(run) for run in runs]
    names = dict.fromkeys(name for each in settings for name in each)
    rows: list[DifferentOptionDict] = [
        {"name": name, "values": [each.get(name) for each in settings], "recorded": [name in each for each in settings]}
        for name in names
    ]
    return [
        row for row in rows if not all(row["recorded"]) or any(value != row["values"][0] for value in row["values"])
    ]


def _settings(run: Run) -> dict[str, Any]:
    """The run's settings and versions, named as in the API."""
    parts = {"network_options": run.network_options, "options": run.options, "versions": run.versions}
    return {
        "network": run.network_name,
        "engine": run.engine,
        "target": run.target,
        "device": run.device,
        "trials_budget": run.trials_budget,
        "time_limit_s": run.time_limit_s,
    } | {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def _network(run: Run) -> str:
    return " ".join([run.network_name or "", *(f"{name}={value}" for name, value in run.network_options.items())])


MOSTLY_QUIET = 0.25
"""Noisy trials don't matter to a comparison up to this share: the best of them are seldom noisy ones."""


class Aspect(NamedTuple):
    """A property in which runs may differ, which makes their latencies less comparable."""

    kind: str
    plural: str
    key: Callable[[Run], Hashable]
    """Equal for equal runs; None if not recorded, which counts as equal to anything."""
    names: Callable[[Sequence[Run]], list[str]]
    """Of runs that differ in it."""
    consequence: str


ASPECTS = (
    Aspect(
        "network",
        "networks",
        lambda run: run.network_id,
        lambda runs: list(map(_network, runs)),
        "Their estimated latencies are not comparable, only those of the tasks that they share.",
    ),
    Aspect(
        "target",
        "targets",
        lambda run: run.target_fingerprint,
        lambda runs: target_names([run.target for run in runs]),
        "Latencies depend on the target as much as on the schedule.",
    ),
    Aspect(
        "device",
        "devices",
        lambda run: run.device or None,
        lambda runs: [run.device for run in runs],
        "Latencies, speeds and times depend on where they were measured.",
    ),
    Aspect(
        "engine",
        "engines",
        lambda run: run.engine,
        lambda runs: [run.engine for run in runs],
        "Each engine counts trials and time in its own way; latencies are comparable.",
    ),
    Aspect(
        "tvm",
        "versions of TVM",
        lambda run: run.versions.get("apache-tvm"),
        lambda runs: [run.versions["apache-tvm"] for run in runs],
        "Tasks whose workloads differ between the versions are matched by name and shapes.",
    ),
    Aspect(
        "weights",
        "states of the weights",
        lambda run: None if run.cold_bytes is None else run.cold_bytes > 0,
        lambda runs: ["as cold as in the network" if run.cold_bytes else "in the caches" for run in runs],
        "With cold weights functions take longer, as they do in the network.",
    ),
)


def caveats(runs: Sequence[Run], matches: Sequence[Match]) -> list[CaveatDict]:
    """What to know before comparing the figures."""
    found = [_difference(runs, aspect) for aspect in ASPECTS]
    for run in runs:
        found += [
            _synthetic(run),
            _simulated(run),
            _unfinished(run),
            _untimed(run),
            _chosen(run),
            _warm(run),
            _adapted(run),
            _noisy(run),
        ]
    if any(len({task.weight for task in match.tasks.values()}) > 1 for match in matches):
        found.append(
            _caveat("weight", "Some tasks have different weights in these networks, which affects their totals.")
        )
    return [caveat for caveat in found if caveat]


def _difference(runs: Sequence[Run], aspect: Aspect) -> CaveatDict | None:
    groups: dict[Hashable, list[Run]] = defaultdict(list)
    for run in runs:
        if (key := aspect.key(run)) is not None:
            groups[key].append(run)
    if len(groups) < 2:
        return None
    names = aspect.names([group[0] for group in groups.values()])
    listed = ", ".join(
        f"{name} ({numbered([run.pk for run in group])})" for name, group in zip(names, groups.values(), strict=True)
    )
    return _caveat(aspect.kind, f"Different {aspect.plural}: {listed}. {aspect.consequence}")


def _synthetic(run: Run) -> CaveatDict | None:
    if not run.synthetic:
        return None
    return _caveat("synthetic", f"Run {run.pk} is synthetic: its figures are generated, not measured.")


def _simulated(run: Run) -> CaveatDict | None:
    if not run.simulator:
        return None
    return _caveat("simulator", f"The times of run {run.pk} are {SIMULATED.format(simulator=run.simulator)}")


def _unfinished(run: Run) -> CaveatDict | None:
    """Why a run has no estimate."""
    if run.estimated_latency_s is not None:
        return None
    if not run.trials_done:
        return _caveat("no_trial", f"Run {run.pk} has no trials yet.")
    if run.trials_failed == run.trials_done:
        return _caveat("no_valid_trial", f"Run {run.pk} has no valid trial: all {run.trials_done:,} have failed.")
    if any(task.weight is None for task in run.tasks.all()):
        return _caveat(
            "no_estimate", f"Run {run.pk} has no estimated latency: the weights of its tasks aren't recorded."
        )
    measured = f"{run.tasks_measured:,} of {run.tasks_chosen:,} tasks are measured"
    return _caveat("no_estimate", f"Run {run.pk} has no estimated latency yet: {measured}.")


def _untimed(run: Run) -> CaveatDict | None:
    if run.is_timed:
        return None
    return _caveat("untimed", f"The times of run {run.pk}'s trials aren't recorded, so it has no curve over time.")


def _chosen(run: Run) -> CaveatDict | None:
    if run.tasks_chosen == run.tasks_total:
        return None
    return _caveat(
        "chosen",
        f"Run {run.pk} tunes {run.tasks_chosen:,} of {run.tasks_total:,} tasks; its estimate covers only these.",
    )


def _warm(run: Run) -> CaveatDict | None:
    if not run.warm_start:
        return None
    tasks, runs = len(run.warm_start["tasks"]), numbered(run.warm_start["runs"])
    message = f"Run {run.pk} had a head start: {tasks} of its tasks began with records of {runs}."
    return _caveat("warm_start", message)


def _adapted(run: Run) -> CaveatDict | None:
    if not run.adapted:
        return None
    tasks, runs = len(run.adapted["tasks"]), numbered(run.adapted["runs"])
    message = f"Run {run.pk} had a head start: {tasks} of its tasks began with schedules for other shapes, of {runs}."
    return _caveat("adapted", message)


def _noisy(run: Run) -> CaveatDict | None:
    noisy, done = run.trials_noisy, run.trials_done
    if noisy <= MOSTLY_QUIET * done:
        return None
    which = f"All {done:,}" if noisy == done else f"{noisy:,} of the {done:,}"
    used = "were measured while other processes used the machine"
    return _caveat("noisy", f"{which} trials of run {run.pk} {used}, so its latencies may be too high.")


def _caveat(kind: str, message: str) -> CaveatDict:
    return {"kind": kind, "message": message}
