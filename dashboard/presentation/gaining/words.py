"""What is left to gain from a run, in words."""

from __future__ import annotations

from typing import Any

from dashboard.presentation import units
from tuning.reads.gaining import Gain, Verdict
from tuning.wording import SPACE, listed

MOST_NAMED = 3
"""More tasks than this aren't named in a sentence."""


def shown(verdict: Verdict) -> dict[str, Any]:
    """What the panel and the table of tasks show."""
    return {
        "sentences": sentences(verdict),
        "cells": [_cells(gain, verdict.run.machine_name) for gain in verdict.gains if gain.best_known],
    }


def sentences(verdict: Verdict) -> list[str]:
    """What there is to say, the most important first; nothing if nothing is known."""
    return [sentence for sentence in (_if_equalled(verdict),) if sentence]


def _if_equalled(verdict: Verdict) -> str:
    if verdict.if_equalled_s is None:
        return ""
    slower = [gain for gain in verdict.gains if gain.if_equalled_s]
    if not slower:
        return f"No other run is faster on {_covered(verdict)}."
    first = max(slower, key=lambda gain: gain.if_equalled_s or 0)
    gained = f"{units.latency(verdict.if_equalled_s)}{_of_estimate(verdict)}"
    where = (
        f"task {first.task.index}"
        if len(slower) == 1
        else f"{len(slower)} tasks, most of all in task {first.task.index}"
    )
    return f"Other runs are faster in {where}: equalling them would gain {gained}."


def _of_estimate(verdict: Verdict) -> str:
    share = verdict.if_equalled
    return "" if share is None else f" ({units.percent(share)} of the estimate)"


def _covered(verdict: Verdict) -> str:
    """The tasks of which another run's latency is known."""
    known = [gain.task.index for gain in verdict.gains if gain.if_equalled_s is not None]
    if len(known) == sum(gain.task.chosen for gain in verdict.gains):
        return "any of its tasks"
    if len(known) <= MOST_NAMED:
        return f"task{'s' if len(known) > 1 else ''}{SPACE}{listed(known)}"
    return f"any of the {len(known)} tasks that others have measured, too"


def _cells(gain: Gain, machine: str) -> dict[str, Any]:
    known = gain.best_known
    assert known is not None
    return {
        "task": gain.task.index,
        "known": known,
        "origin": _origin(known["run_name"], known["trial"], known["machine"], machine, known["tvm"]),
        "if_equalled_s": gain.if_equalled_s,
        "if_equalled": gain.if_equalled,
    }


def _origin(run: str, trial: int, by: str | None, here: str, tvm: str | None) -> str:
    """Where a latency comes from; its machine if that isn't the run's own."""
    where = f" on {by}" if by and by != here else ""
    return f"Trial {trial:,} of {run}{where}, {f'TVM {tvm}' if tvm else 'TVM not recorded'}"
