"""A compilation in words: what it does now, what it covers, whether it is right and how fast."""

from __future__ import annotations

from collections.abc import Iterator

from tuning.models import BenchmarkDict, Compilation, CompilationDict, LatencyDict

from . import units

DOING = {
    "loading": "loading TVM",
    "building": "building the network",
    "linking": "linking the libraries",
    "verifying": "comparing with the untuned library",
    "benchmarking": "benchmarking",
}


def sentence(compilation: Compilation) -> str:
    """One line below the progress bar."""
    if compilation.waits_for:
        return f"built; its proof waits for {compilation.waits_for}"
    if compilation.status in ("queued", "cancelling"):
        return {"queued": "queued", "cancelling": "being cancelled"}[compilation.status]
    return DOING.get(compilation.phase or "", "") if compilation.is_live else ""


def coverage(compilation: CompilationDict) -> str:
    """How many functions use a record, and which don't."""
    covered = compilation["coverage"]
    if covered is None:
        return ""
    rest = f"; not: {', '.join(covered['untuned'])}" if covered["untuned"] else ""
    return f"{covered['tuned']} of {covered['functions']} functions use a tuned record{rest}."


def verdict(compilation: CompilationDict) -> str:
    """Whether the outputs are those of the untuned library."""
    if compilation["verified"] is None:
        return ""
    error, tolerance = compilation["max_abs_error"], compilation["tolerance"]
    if error is None or tolerance is None:
        return "Not verified: an output has numbers where the other has none."
    said = "Verified" if compilation["verified"] else "Not verified"
    return (
        f"{said}: outputs differ from the untuned library's by {error:.2g} at most, {compilation['max_rel_error']:.2g} of the "
        f"largest ({tolerance['relative']:g} is allowed for {tolerance['dtype']})."
    )


def speed(compilation: CompilationDict) -> str:
    """Speed-up, and the estimate against what was measured."""
    times = compilation["speedup"]
    said = "" if times is None else f"{times:,.1f} times as fast as untuned. "
    estimate, measured = compilation["estimate_s"], compilation["measured_s"]
    if estimate is None or measured is None:
        return f"{said}Estimate: not known."
    return f"{said}Estimate {units.latency(estimate)}, measured {units.latency(measured)} ({measured / estimate:.2f} of it)."


def sides(benchmark: BenchmarkDict) -> Iterator[tuple[str, LatencyDict]]:
    """What was measured, by its name."""
    version = benchmark["onnxruntime_version"]
    named = (("tuned", "Tuned"), ("untuned", "Untuned"), ("onnxruntime", f"ONNX Runtime {version}"))
    for side, name in named:
        if latency := benchmark[side]:  # type: ignore[literal-required]
            yield name, latency
