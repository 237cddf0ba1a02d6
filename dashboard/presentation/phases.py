"""A run's phase, end and coverage in words. `static/js/run/heading.js` has the same texts."""

from __future__ import annotations

from tuning.models import Run, RunDict
from tuning.wording import numbered

from . import units

DOING = {
    "loading": "loading TVM and the network",
    "extracting": "extracting tasks",
    "design_spaces": "generating design spaces",
    "searching": "searching candidates",
    "building": "building candidates",
    "measuring": "measuring candidates",
}


EARLY = {"time_limit": "ended at its time limit", "plateau": "ended on a plateau", "exhausted": "nothing left to try"}
"""Short texts about why a run ended before its budget was spent."""


def sentence(run: RunDict) -> str:
    """One line below the progress bar."""
    if run["status"] == Run.Status.QUEUED:
        return _queued(run["place"] or 0)
    if run["status"] == Run.Status.STOPPING:
        return "stopping after the trial being measured"
    if run["status"] == Run.Status.FINISHED:
        return ended(run)
    if run["status"] != Run.Status.RUNNING:
        return ""
    doing = DOING.get(run["phase"] or "", run["phase"] or "starting")
    return doing if run["phase_task"] is None else f"{doing} of task {run['phase_task']}"


def ended(run: RunDict) -> str:
    """Why the engine ended by itself; empty if it didn't."""
    reason = run["finish_reason"]
    if reason == "budget":
        return "ended: the budget is spent"
    if reason == "time_limit":
        return f"ended at its time limit of {units.duration(run['time_limit_s'])}"
    if reason == "plateau":
        gain, trials = (run["options"].get(f"plateau_{name}") for name in ("percent", "trials"))
        return f"ended early: no task gained {gain:g} % any more in {trials} trials"
    return "ended early: nothing was left to try" if reason == "exhausted" else ""


def coverage(run: RunDict) -> str:
    """Which tasks the estimate covers, and how many are measured."""
    measured, chosen, total = run["tasks_measured"], run["tasks_chosen"], run["tasks_total"]
    if not total:
        return "tasks not extracted yet"
    if chosen == total:
        return f"{measured} of {total} tasks measured"
    rest = "" if measured == chosen else f", {measured} measured"
    return f"estimate of the chosen {chosen} of {total} tasks{rest}"


def warm_start(run: RunDict) -> str:
    """Which records the run began with; empty if none."""
    warm = run["warm_start"]
    if not warm:
        return ""
    return f"{len(warm['tasks'])} of {run['tasks_chosen']} tasks start from records of {numbered(warm['runs'])}"


def _queued(place: int) -> str:
    if place == 0:
        return "queued: next on this device"
    return f"queued: {place} {'run' if place == 1 else 'runs'} ahead on this device"
