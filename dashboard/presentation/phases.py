"""What a run does now, in words. `static/js/phases.js` is the twin."""

from __future__ import annotations

from tuning.models import RunDict

DOING = {
    "loading": "loading TVM and the network",
    "extracting": "extracting tasks",
    "design_spaces": "generating design spaces",
    "searching": "searching candidates",
    "building": "building candidates",
    "measuring": "measuring candidates",
}


def sentence(run: RunDict) -> str:
    """One line below the progress bar."""
    if run["status"] == "queued":
        return _queued(run["place"] or 0)
    if run["status"] == "stopping":
        return "stopping after the trial being measured"
    if run["status"] != "running":
        return ""
    doing = DOING.get(run["phase"] or "", run["phase"] or "starting")
    return doing if run["phase_task"] is None else f"{doing} of task {run['phase_task']}"


def _queued(place: int) -> str:
    if place == 0:
        return "queued: next on this device"
    return f"queued: {place} {'run' if place == 1 else 'runs'} ahead on this device"
