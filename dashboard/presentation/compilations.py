"""A compilation's progress and results in words."""

from __future__ import annotations

from collections.abc import Iterator

from tuning.models import BenchmarkDict, Compilation, CompilationDict, LatencyDict

from . import units

DOING = {
    "loading": "loading TVM and the network",
    "building": "building the tuned and untuned libraries",
    "linking": "linking",
    "verifying": "comparing outputs with the untuned library’s",
    "benchmarking": "benchmarking",
}
"""By the engine's phase. The page has the same texts for live updates."""
STEPS = (("build", "Build"), ("prove", "Verify and benchmark"))
RECORDS = {"run": "the best records of this run", "library": "the best records of all runs"}

SOURCES = {
    "run": ("The best of this run", "What the run's own estimate is made of."),
    "library": (
        "The best over all runs",
        "For each function, the best record of the same workload and target in any run, made by the TVM that compiles it.",
    ),
}
"""Title and explanation of each choice."""


def sentence(compilation: Compilation) -> str:
    """One line below the progress bar."""
    if compilation.status == Compilation.Status.QUEUED:
        waits = compilation.waits_for
        return f"queued: waiting for {waits}" if waits else "queued: waiting for a worker"
    if compilation.status == Compilation.Status.CANCELLING:
        return "cancelling"
    return DOING.get(compilation.phase or "", "starting") if compilation.is_live else ""


def coverage(one: CompilationDict, *, named: bool = False) -> str:
    """How many functions use a record; if `named`, also the names of those that don't."""
    found = one["coverage"]
    if found is None:
        return "not built yet"
    rest = f"; untuned: {', '.join(found['untuned'])}" if named and found["untuned"] else ""
    return f"{found['tuned']} of {found['functions']} functions use a tuned record{rest}"


def verdict(one: CompilationDict) -> str:
    """Whether the outputs match those of the untuned library."""
    if one["verified"] is None:
        return "Not verified yet."
    error, tolerance = one["max_abs_error"], one["tolerance"]
    if error is None or tolerance is None:
        return "Not verified: an output is not a number where the other library's is."
    if not error:
        return "Verified: outputs are identical to the untuned library's."
    size = f"at most {error:.2g}, {one['max_rel_error']:.2g} of the largest ({tolerance['relative']:g} is allowed for {tolerance['dtype']})."
    if not one["verified"]:
        return f"Not verified: outputs differ from the untuned library's by {size}"
    return f"Verified: outputs match the untuned library's. They differ by {size}"


def estimate(one: CompilationDict) -> str:
    """How the measurement compares with the estimate."""
    if one["estimate_s"] is None:
        return "not every task has a record"
    if one["measured_s"] is None:
        return "sum over the records"
    return f"measured is {units.times(one['measured_s'] / one['estimate_s'])} the estimate"


def speed(compilation: CompilationDict) -> str:
    """The speed-up, and the measurement compared with the estimate."""
    times = compilation["speedup"]
    speedup = "" if times is None else f"{times:,.1f} times as fast as untuned. "
    estimate, measured = compilation["estimate_s"], compilation["measured_s"]
    if estimate is None or measured is None:
        return f"{speedup}Estimate: not known."
    return f"{speedup}Estimate {units.latency(estimate)}, measured {units.latency(measured)} ({units.times(measured / estimate)} the estimate)."


def sides(benchmark: BenchmarkDict) -> Iterator[tuple[str, LatencyDict]]:
    """The measured sides with their names."""
    version = benchmark["onnxruntime_version"]
    named = (("tuned", "Tuned"), ("untuned", "Untuned"), ("onnxruntime", f"ONNX Runtime {version}"))
    for side, name in named:
        if latency := benchmark[side]:  # type: ignore[literal-required]
            yield name, latency
