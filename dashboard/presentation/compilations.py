"""A compilation's progress and results in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

from tuning.models import (
    BenchmarkDict,
    Compilation,
    CompilationDict,
    CoverageDict,
    LatencyDict,
    RecordCoverageDict,
    Run,
    UntunedDict,
)
from tuning.wording import SPACE, listed

from . import units

DOING = {
    "loading": "loading TVM and the network",
    "building": "building the tuned and untuned libraries",
    "choosing": "building and measuring networks of several records",
    "linking": "linking",
    "verifying": "comparing outputs with the untuned library’s",
    "benchmarking": "benchmarking",
}
"""By the engine's phase. The page has the same texts for live updates."""
STEPS = (("build", "Build"), ("prove", "Verify and benchmark"))
LARGE_SPREAD = 0.1
"""Above this share of the median, the standard deviation of a benchmark's rounds is worth a warning."""
SIDES = {"tuned": "Tuned", "untuned": "Untuned", "onnxruntime": "ONNX Runtime", "float_model": "Float model"}
"""What a benchmark measures in turn. It has no float model unless the network is quantized."""
SAME = units.times(1.0)
NAMED = 8
"""Most tasks that are named."""
RECORDS = {"run": "the best records of this run", "library": "the best records of all runs"}

SOURCES = {
    "run": ("The best of this run", "What the run's own estimate is made of."),
    "library": (
        "The best over all runs",
        "For each function, the best record of the same workload and target in any run of this site, made by the TVM that compiles it.",
    ),
}
"""Title and explanation of each choice."""
CHOICES = {
    "alone": ("As they were measured", "Each task’s record with the lowest latency of its own."),
    "inside": (
        "Inside the network",
        "Measures the best few records of each task in the built network, with its data and caches, and keeps the fastest there. Needs the device, and some minutes.",
    ),
}
"""Likewise, of where the best record is chosen."""
GRAPHS = {
    "on": (
        "Launched together",
        "The first inference captures the kernels as CUDA graphs, and all others launch these: less time for the same outputs.",
    ),
    "off": ("Launched one by one", "For programs that capture the inference in a graph of their own."),
}
"""Likewise, of how a library for a CUDA GPU launches its kernels."""


class BatchRow(NamedTuple):
    """A batch of a library that takes any, with medians of the latest benchmark in seconds; what isn't known is None."""

    batch: int
    run: int
    coverage: CoverageDict | None
    estimate_s: float | None
    tuned_s: float | None = None
    untuned_s: float | None = None
    onnxruntime_s: float | None = None
    max_rel_error: float | None = None

    @property
    def each_s(self) -> float | None:
        """Of one sample."""
        return None if self.tuned_s is None else self.tuned_s / self.batch

    @property
    def over_onnxruntime(self) -> float | None:
        """ONNX Runtime's time divided by the library's."""
        return self.onnxruntime_s / self.tuned_s if self.onnxruntime_s and self.tuned_s else None


def batches(one: CompilationDict) -> list[BatchRow]:
    """Empty unless the library takes any batch."""
    measured = {each["batch"]: each for each in one["benchmarks"][0]["batches"]} if one["benchmarks"] else {}
    rows = []
    for each in one["batches"]:
        row = BatchRow(each["batch"], each["run"], each["coverage"], each["estimate_s"])
        if found := measured.get(row.batch):
            row = row._replace(
                tuned_s=_median_s(found["tuned"]),
                untuned_s=_median_s(found["untuned"]),
                onnxruntime_s=_median_s(found["onnxruntime"]),
                max_rel_error=found["max_rel_error"],
            )
        rows.append(row)
    return rows


def _median_s(latency: LatencyDict | None) -> float | None:
    return latency["median_s"] if latency else None


def any_batch(runs: Mapping[int, Run]) -> str:
    """What a library for any batch has, of these runs by batch; empty if there are none."""
    if not runs:
        return ""
    records = listed([f"#{run.pk}" for run in runs.values()])
    return f"It has functions for {listed(list(runs))}, with records of {records}. Others are padded to the next of these, or computed in pieces."


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
        return f"Verified: outputs are identical to {_untuned(one)}."
    why = f": {tolerance['steps']} quantization steps, as it computes in integers" if tolerance.get("steps") else ""
    allowed = f"{tolerance['relative']:.3g} is allowed for {tolerance['dtype']}{why}"
    size = f"at most {error:.2g}, {one['max_rel_error']:.2g} of the largest ({allowed})."
    if not one["verified"]:
        return f"Not verified: outputs differ from {_untuned(one)} by {size}"
    return f"Verified: outputs match {_untuned(one)}. They differ by {size}"


def accuracy(one: CompilationDict) -> str:
    """How far a quantized model's library is from the float model, by the latest benchmark; empty if there was none."""
    found = one["benchmarks"][0]["accuracy"] if one["benchmarks"] else None
    if found is None:
        return ""
    if found["without"]:
        return f"Not compared with the float model {found['name']}: {found['without']}"
    if found["rms_error"] is None or found["max_error"] is None:
        return f"An output of the library or of the float model {found['name']} isn’t finite."
    rows, same = found["rows"], found["same_largest"]
    classes = f" In {same} of {rows} rows the largest value is in the same column." if rows else ""
    return (
        f"Outputs differ from those of the float model {found['name']} by {units.percent(found['rms_error'])} (root mean square), and by at most "
        f"{units.percent(found['max_error'])} of the largest, over {found['samples']} random inputs.{classes}"
    )


def _untuned(one: CompilationDict) -> str:
    """Whose outputs those of the library are compared with."""
    return "the untuned library's" if one["precision"] == "network" else "those of the untuned library in float32"


def choice(one: CompilationDict) -> str:
    """What choosing inside the network led to; empty if it wasn't done."""
    chosen = one["chosen"]
    if chosen is None:
        return ""
    functions, rounds = chosen["functions"], chosen["rounds"]
    others = sum(each["chosen"] > 0 for each in functions)
    if not others:
        return f"Inside the network, none of the other records is clearly faster than the best one. {_alone_and_inside(functions)}"
    best_s, chosen_s = (median(rounds[side]) for side in ("best", "chosen"))
    took = f"one inference took {units.latency(chosen_s)} with them and {units.latency(best_s)} with the best ones"
    kept = (
        f"So they were kept: {took}."
        if chosen["kept"]
        else f"Together they don’t gain clearly ({took}), so the best ones were kept."
    )
    faster = f"{others} of {len(functions)} functions {'is' if others == 1 else 'are'} faster with another record"
    return f"Inside the network, {faster}. {kept} {_alone_and_inside(functions)}"


def graphs(one: CompilationDict) -> str:
    """How a library for a CUDA GPU launches its kernels; empty for those without graphs."""
    number = one["cuda_graphs"]
    if number is None:
        return ""
    if not number:
        return "No kernel could be captured in a CUDA graph: each reads the network’s inputs or writes its outputs."
    captured = "one CUDA graph" if number == 1 else f"{units.count(number)} CUDA graphs"
    return f"The first inference captures {captured}, and all others launch what it captured. Kernels that read the network’s inputs or write its outputs are launched one by one."


def profile(one: CompilationDict) -> str:
    """Where the time of an inference goes, by the latest benchmark; empty if that isn't recorded."""
    found = one["benchmarks"][0]["profile"] if one["benchmarks"] else None
    if found is None:
        return ""
    alone = {each["function"]: each["latency_s"] for each in one["used"]}
    parts = found["functions"]
    inside_s = sum(part["calls"] * part["inside_s"] for part in parts)
    beside = f"{found['machine_calls']:,} calls of the virtual machine itself, for memory and tuples, take {units.latency(found['machine_s'])}"
    compared = ""
    if parts and all(part["function"] in alone for part in parts):
        alone_s = sum(part["calls"] * alone[part["function"]] for part in parts)
        compared = f", {units.times(inside_s / alone_s)} what their records take alone"
    return f"In the network, the functions take {units.latency(inside_s)}{compared}; {beside}."


def _alone_and_inside(functions: list[dict[str, Any]]) -> str:
    """The sums for the best records."""
    pairs = [(each["calls"], each["tried"][0]) for each in functions]
    alone_s, inside_s = (sum(calls * tried[key] for calls, tried in pairs) for key in ("latency_s", "inside_s"))
    return f"The best records take {units.latency(alone_s)} alone, and {units.latency(inside_s)} inside, the timing of each call included."


def estimate(one: CompilationDict) -> str:
    """How the measurement compares with the estimate."""
    if one["estimate_s"] is None:
        return "not every task has a record"
    if one["measured_s"] is None:
        return "sum over the records"
    return f"measured is {units.times(one['measured_s'] / one['estimate_s'])} the estimate"


def headline(one: CompilationDict) -> str:
    """The measured latency beside that of the untuned library and of ONNX Runtime; empty if nothing was measured."""
    if one["measured_s"] is None:
        return ""
    latest = one["benchmarks"][0]
    rivals = (
        ("the untuned library", one["speedup"], None),
        (onnxruntime(latest), one["speedup_over_onnxruntime"], latest["without_onnxruntime"]),
    )
    told = [_beside(*rival) for rival in rivals]
    if latest["speedup_over_float_model"] is not None:
        told.append(_beside("the float model in ONNX Runtime", latest["speedup_over_float_model"], None))
    return f"{units.latency(one['measured_s'])}: {', '.join(told)}."


def onnxruntime(benchmark: BenchmarkDict) -> str:
    """Its name with its version, if that is known."""
    return f"{SIDES['onnxruntime']} {benchmark['onnxruntime_version'] or ''}".strip()


def _beside(rival: str, factor: float | None, why: str | None) -> str:
    """`factor` is the rival's time divided by ours."""
    if factor is None:
        return f"not compared with {rival}{f' ({why.rstrip(chr(46))})' if why else ''}"
    shown = units.times(max(factor, 1 / factor))
    if shown == SAME:
        return f"as fast as {rival}"
    return f"{shown} as fast as {rival}" if factor > 1 else f"{shown} the time of {rival}"


def rounds(benchmark: BenchmarkDict) -> str:
    """How many there were, and in how many of them the sides took turns if that isn't the same: see `engines.proof.rounds`."""
    every, each = benchmark["rounds"], {name: latency["rounds"] for name, latency in sides(benchmark)}
    once = [name for name, number in each.items() if number < min(2, every)]
    shared = min(number for name, number in each.items() if name not in once)
    told = f"{every} alternating rounds" if every == shared else f"{every} rounds, the first {shared} alternating"
    return f"{told}; {listed(once)} ran once" if once else told


def extent(latency: LatencyDict | None) -> str:
    """From the fastest round to the slowest, in one unit as far as that goes; empty if nothing was measured."""
    if latency is None:
        return ""
    least, most = (units.latency(latency[which]).split(SPACE) for which in ("min_s", "max_s"))
    return f"{least[0] if least[1] == most[1] else SPACE.join(least)} to {SPACE.join(most)}"


def restless(benchmark: BenchmarkDict) -> str:
    """A warning that rounds of the same side differ too much to trust small differences; empty if they don't."""
    wide = [
        f"{name} ({units.percent(it['spread'])})" for name, it in sides(benchmark) if (it["spread"] or 0) > LARGE_SPREAD
    ]
    if not wide:
        return ""
    return (
        f"The rounds differ much: the standard deviation of {listed(wide)} is above {LARGE_SPREAD * 100:.0f}{SPACE}% of the median. "
        "Something else may have used the device: benchmark again when it is idle."
    )


def untuned(found: RecordCoverageDict) -> str:
    """Which tasks a compilation would build untuned: how many, and the first of their names."""
    lacking = found["untuned"]
    if not lacking:
        return f"Each of the {found['tasks']:,} tasks has a record."
    names = [_weighing(one) for one in lacking[:NAMED]]
    rest = [f"{len(lacking) - NAMED:,} more"] if len(lacking) > NAMED else []
    have = "has" if len(lacking) == 1 else "have"
    return f"{len(lacking):,} of {found['tasks']:,} tasks {have} no record and would be built untuned: {listed([*names, *rest])}."


def _weighing(task: UntunedDict) -> str:
    """Its name, and how often it occurs if that is more than once."""
    return f"{task['name']} (×{task['weight']})" if (task["weight"] or 1) > 1 else task["name"]


def sides(benchmark: BenchmarkDict) -> Iterator[tuple[str, LatencyDict]]:
    """The measured sides with their names."""
    for side, name in (SIDES | {"onnxruntime": onnxruntime(benchmark)}).items():
        if latency := benchmark[side]:  # type: ignore[literal-required]
            yield name, latency
