"""What measured a run, and how steadily, as facts about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dashboard.presentation import units
from tuning.models import Run
from tuning.models.fleet import is_shared
from tuning.noise import FEWEST
from tuning.reads.course.conditions import ConditionSessionDict, ProcessorDict
from tuning.wording import listed, plus_minus

NAMED = 4
"""Most machines that are named of those with equal processors."""
NOT_RECORDED = "not recorded"


class Fact(NamedTuple):
    name: str
    value: str
    about: str


class Measurers(NamedTuple):
    """Machines with equal processors."""

    names: str
    processor: ProcessorDict


def measurers(sessions: Iterable[ConditionSessionDict]) -> list[Measurers]:
    """The machines that measured the run, those with equal processors together."""
    found: list[tuple[ProcessorDict, list[str]]] = []
    for one in sessions:
        names = next((names for processor, names in found if processor == one["processor"]), None)
        if names is None:
            found.append((one["processor"], [one["machine"]]))
        elif one["machine"] not in names:
            names.append(one["machine"])
    return [Measurers(_named(names), processor) for processor, names in found]


def saving_power(sessions: Iterable[ConditionSessionDict]) -> str:
    """Names of the machines that lower frequencies while little is running, by their latest sessions; empty if none does."""
    governors = {one["machine"]: one["processor"]["governor"] for one in sessions}
    names = [name for name, governor in governors.items() if "powersave" in (governor or "")]
    return _named(names) if names else ""


def _named(names: list[str]) -> str:
    rest = len(names) - NAMED
    return listed([*names[:NAMED], f"{rest:,} more"] if rest > 0 else names)


def facts(run: Run) -> list[Fact]:
    """How noisy its measurements are, and what isn't recorded of what measured it."""
    remote = run.is_ours and is_shared(run.device)
    untold = Fact("Load of its devices", NOT_RECORDED, "a tracker’s devices don’t tell it")
    return [_weights(run), _noise(run), *([untold] if remote else [])]


def _weights(run: Run) -> Fact:
    if run.cold_bytes is None:
        return Fact("Weights", NOT_RECORDED, "")
    if not run.cold_bytes:
        return Fact("Weights", "in the caches", "where one execution leaves them to the next")
    least, most = run.tasks.all().cold_bytes() or (run.cold_bytes, run.cold_bytes)
    if least == most:
        about = f"up to {units.bytes_label(most)} of others, and of results, are read before each execution, as in the network"
    else:
        about = (
            f"as in the network, where between {units.bytes_label(least)} and {units.bytes_label(most)} are touched "
            "between two uses of a task’s weights, these among them"
        )
    return Fact("Weights", "cold", about)


def _noise(run: Run) -> Fact:
    count = run.reference_measurements.count()
    if run.noise is not None:
        return Fact(
            "Noise", plus_minus(run.noise), f"the record of trial {run.reference_trial}, measured {count:,} times"
        )
    return Fact("Noise", NOT_RECORDED, _why_no_noise(run, count))


def _why_no_noise(run: Run, measured: int) -> str:
    if run.synthetic:
        return "a synthetic run measures nothing"
    if not run.is_ours:
        return "this run was tuned elsewhere"
    if not run.is_meta_schedule:
        return "engines under an older TVM don’t report it"
    if run.status not in Run.ENDED:
        return f"told once one of its records was measured again {FEWEST} times"
    if measured or run.rounds.exists():
        return f"no record was measured again {FEWEST} times"
    return "tuned before Tuneboard recorded it" if run.trials_done else "the run ended before its first trial"
