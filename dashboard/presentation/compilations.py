"""What a compilation does, how it ended and what it proved, in words."""

from __future__ import annotations

from tuning.models import CompilationDict

from . import units

DOING = {
    "loading": "loading TVM and the network",
    "building": "building the tuned and the untuned library",
    "linking": "linking",
    "verifying": "comparing outputs with the untuned library’s",
    "benchmarking": "benchmarking",
}
"""By the engine's phase. The page has them too, for its live line."""
STEPS = (("build", "Build"), ("prove", "Prove and benchmark"))
RECORDS = {"run": "the best records of this run", "library": "the best records of all runs"}

SOURCES = {
    "run": ("The best of this run", "As this run measured them, so that the estimate is its own."),
    "library": (
        "The best over all runs",
        "For each function the best that any run has of the same workload and target, by the installed TVM.",
    ),
}
"""What can be chosen, and what it means."""


def sentence(one: CompilationDict) -> str:
    """One line below the progress bar."""
    if one["status"] == "queued":
        waits = one["waits_for"]
        return f"queued: waits until {waits} is free" if waits else "queued: builds as soon as the worker is free"
    if one["status"] == "cancelling":
        return "cancelling"
    if one["status"] != "running":
        return ""
    return DOING.get(one["phase"] or "", one["phase"] or "starting")


def coverage(one: CompilationDict) -> str:
    """How many functions use a record."""
    found = one["coverage"]
    if found is None:
        return "not built yet"
    return f"{found['tuned']} of {found['functions']} functions use a tuned record"


def verdict(one: CompilationDict) -> str:
    """What the proof said."""
    if one["verified"] is None:
        return "Not proven yet."
    if one["verified"]:
        return "The outputs are those of the untuned library, within the tolerance."
    return "The outputs differ from those of the untuned library by more than the tolerance."


def estimate(one: CompilationDict) -> str:
    """The estimate beside the measurement."""
    if one["estimate_s"] is None:
        return "no estimate: not every task has a record"
    if one["measured_s"] is None:
        return "estimate of the records"
    return f"measured {units.times(one['measured_s'] / one['estimate_s'])} of it"
