"""Tunes a network as users do, compiles it and benchmarks the library: launched, supervised, built and proven as by the site's workers."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from django.core.files.base import ContentFile

from tests.benchmarks.engine.sides import GENEROUS, HOUR, Broken, supervised
from tuning.actions import runs
from tuning.actions.compilations import compile_run
from tuning.actions.networks import uploading
from tuning.engines.wire.errors import Refused
from tuning.host import sandbox
from tuning.models import Benchmark, Compilation, Network, Project, Record, Run
from tuning.models.shapes import ProfileDict
from tuning.work.compiling import carry_out

from .busy import Busy, measured
from .library import about
from .models import MODELS
from .plan import Tuning, Workload
from .stock import Stock, beside
from .together import InTurn, Part, Together

OF_NETWORK = "network_options."
"""Begins the names of the network's own options, as in the errors of a launch."""


class Shipped(msgspec.Struct, frozen=True):
    """What came of a tuning. Rounds are seconds of one inference."""

    network: str
    share: float
    seed: int
    cpu: str
    """LLVM's name, or that of another target."""
    cores: int | None
    """None unless the target is a CPU."""
    run: int
    trials: int
    tuned_for_s: float | None
    estimate_s: float | None
    """What the library's records promise: each task's confirmed latency, or that of its best trial."""
    noise: float | None
    verified: bool
    max_rel_error: float | None
    functions: int
    untuned_functions: list[str]
    rounds: dict[str, list[float]]
    onnxruntime: str | None
    profile: ProfileDict | None = None
    options: dict[str, Any] = {}
    """Of the tuning, besides the benchmark's own."""
    together: Together | None = None
    """The library and its records, measured in turn; None in earlier results, and on GPUs."""
    stock: Stock | None = None
    """Stock TVM with the same budget; None unless asked."""
    busy: Busy | None = None
    """Beside a busy core; None unless asked."""


def shipped(tuning: Tuning, *, with_stock: bool = False, with_busy_core: bool = False) -> Shipped:
    """Raises `Broken`."""
    if tuning.workload.is_uploaded:
        upload(tuning.workload)
    run = runs.launch(launch_of(tuning), None, enqueue=False)
    supervised(run)
    compilation, benchmark = _proven(run)
    found = _of(run, tuning, compilation, benchmark)
    if with_busy_core:
        found = msgspec.structs.replace(found, busy=measured(run, compilation))
    return msgspec.structs.replace(found, stock=beside(run, compilation, tuning)) if with_stock else found


def launch_of(tuning: Tuning) -> dict[str, Any]:
    """As users fill in the form."""
    workload = tuning.workload
    of_network = {name for name in tuning.options if name.startswith(OF_NETWORK)}
    others = {name: value for name, value in tuning.options.items() if name not in of_network}
    return {
        "name": f"bench {tuning.key}",
        "network": workload.name,
        "network_options": workload.options
        | {name.removeprefix(OF_NETWORK): tuning.options[name] for name in of_network},
        "target": tuning.target,
        "trials": tuning.trials,
        "time_limit_s": tuning.minutes * 60,
        "trials_per_batch": 16,
        "seed": tuning.seed,
        "warm_start": False,
        "transfer": False,
        **others,
    }


def upload(workload: Workload) -> None:
    """Unless an earlier tuning did."""
    project = Project.objects.first()
    assert project is not None
    if Network.objects.filter(project=project, name=workload.name).exists():
        return
    uploading.upload(ContentFile(MODELS[workload.name](), f"{workload.name}.onnx"), project, None, name=workload.name)


def _proven(run: Run) -> tuple[Compilation, Benchmark]:
    """Build the run's library, then verify and benchmark it."""
    compilation = compile_run(run, {}, None, enqueue=False)
    for stage in ("built", "verified"):
        if compilation.status != Compilation.Status.QUEUED:
            break
        if not compilation.claim():
            raise Broken(f"{run.device} is busy: the library of run {run.pk} can't be {stage}.")
        carry_out(compilation, threading.Event())
        compilation.refresh_from_db()
    benchmark = compilation.latest
    if compilation.status != Compilation.Status.FINISHED or benchmark is None:
        raise Broken(f"The library of run {run.pk} {compilation.status}: {compilation.error}")
    return compilation, benchmark


def _of(run: Run, tuning: Tuning, compilation: Compilation, benchmark: Benchmark) -> Shipped:
    target, is_cpu = run.target, run.target["kind"] == "llvm"
    return Shipped(
        network=tuning.workload.name,
        share=tuning.share,
        seed=tuning.seed,
        cpu=str(target["mcpu"]) if is_cpu else tuning.target,
        cores=int(target.get("num-cores", 1)) if is_cpu else None,
        run=run.pk,
        trials=run.trials_done,
        tuned_for_s=run.elapsed_s,
        estimate_s=compilation.estimate_s,
        noise=run.noise,
        verified=bool(compilation.verified),
        max_rel_error=compilation.max_rel_error,
        functions=len(compilation.used or []) + len(compilation.untuned or []),
        untuned_functions=list(compilation.untuned or []),
        rounds=benchmark.rounds,
        onnxruntime=benchmark.onnxruntime,
        profile=benchmark.profile,
        options=tuning.options,
        together=_together(run, compilation, benchmark) if is_cpu else None,
    )


def _together(run: Run, compilation: Compilation, benchmark: Benchmark) -> Together:
    """Raises `Broken`."""
    calls = {part["function"]: part["calls"] for part in benchmark.profile["functions"]} if benchmark.profile else {}
    records = {record.trial: record for record in Record.objects.filter(task__run=run).select_related("task")}
    used = [(records[one["trial"]], calls.get(one["function"], 0)) for one in compilation.used]
    parts = [Part(record.text, count, record.task.cold_bytes or 0) for record, count in used]
    question = InTurn(
        parts=[part for part in parts if part.calls],
        **about(run, compilation),
        **GENEROUS,
    )
    try:
        return sandbox.ask_once("tests.benchmarks.networks.together", question, Together, limits=HOUR)
    except Refused as error:
        raise Broken(f"The records of run {run.pk} couldn't be measured beside its library: {error}") from error
