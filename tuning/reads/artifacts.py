"""The files of compilations, and whether a run can be compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tuning.beneath import NotRegular
from tuning.engines.wire.engines import ENGINES
from tuning.engines.wire.versions import in_use
from tuning.host import devices
from tuning.host.older import compilers
from tuning.models import Batches, Compilation, Network, Record, RecordCoverageDict, Run, Task
from tuning.storage import store
from tuning.validation import Conflict
from tuning.wording import is_vta

from .files import File, console_file, file_pieces
from .library import is_known, workloads_with_records

TVM = ("apache-tvm", "apache-tvm-ffi")
VTA = "Libraries for VTA aren't built here: download its best records, and build with vta.build_config() under your VTA build."
_OPERATOR = re.compile(r"[a-z0-9]+")
"""What the names of a layer's templates begin with: `dense_nopack.x86` and `dense_pack.x86`."""
UNKNOWN = "No run has a valid record of these workloads that this site measured, for this target and TVM version."


def compile_trouble(
    run: Run, source: str = Compilation.Source.RUN, *, wait: bool = True, imported: bool = False
) -> str | None:
    """Why the run can't be compiled now; None when it can.

    Unless it is to `wait`, an interpreter with an older TVM that hasn't said yet what it can do is no trouble.
    """
    if trouble := _unusable(run):
        return trouble
    if source == Compilation.Source.RUN and not Record.objects.filter(task__run=run).exists():
        return "The run has no valid record yet, so there is nothing to compile."
    if not run.is_meta_schedule:
        return _older_trouble(run, source, wait=wait)
    if source == Compilation.Source.LIBRARY:
        return None if is_known(run, imported=imported) else UNKNOWN
    return other_tvm(run.versions)


def choosing_trouble(run: Run) -> str | None:
    """Why its records can't be chosen inside the network; None when they can."""
    if not run.is_meta_schedule:
        return "Records are chosen inside the network only of runs that MetaSchedule has tuned."
    if run.measures_on != "cpu":
        return f"Records are chosen inside the network only on CPUs of this site's machines, not on {run.measures_on}."
    return None


def has_cuda_graphs(run: Run) -> bool:
    """Whether kernels of its libraries can be captured as CUDA graphs: older TVMs' graph executors can't."""
    return run.is_meta_schedule and run.target["kind"] == "cuda"


class AnyBatch(NamedTuple):
    """What a library of a run that takes any batch would have."""

    own: int | None
    """The run's batch; None if the project knows its network for no other."""
    runs: dict[int, Run]
    """The run whose records each batch would have, the run itself among them, by ascending batch; empty if there is trouble."""
    trouble: str | None


def any_batch(run: Run) -> AnyBatch:
    """Of the other runs that were tuned for the same target and compute alike, those with the lowest estimates count."""
    if not run.is_meta_schedule:
        return AnyBatch(None, {}, "A library for any batch is built only of runs that MetaSchedule has tuned.")
    known = _batches_known(run)
    others = _other_batches(run, known.others) if known else {}
    if known and others:
        return AnyBatch(known.own, dict(sorted({known.own: run, **others}.items())), None)
    network = run.tuned_network
    also = f"Add {network.name} for other batches, too, and tune these." if network.is_uploaded else "Tune those, too."
    trouble = f"No run of the project has tuned other batches of the network for this target in the same way. {also}"
    return AnyBatch(known.own if known else None, {}, trouble)


def _batches_known(run: Run) -> Batches | None:
    """The run's network for other batches, as far as its project knows: which options of a built-in network others use is theirs to know."""
    known = run.tuned_network.batches()
    if known is None or run.tuned_network.is_uploaded:
        return known
    runs = Run.objects.filter(project=run.project_id, network__in=known.others.values())
    used = set(runs.values_list("network", flat=True))
    others = {batch: network for batch, network in known.others.items() if network.pk in used}
    return Batches(known.own, others) if others else None


def _other_batches(run: Run, networks: Mapping[int, Network]) -> dict[int, Run]:
    """The best run of each of these networks by batch, without those that have none."""
    found = {}
    for batch, network in networks.items():
        runs = Run.objects.filter(
            project=run.project_id,
            network=network,
            engine=run.engine,
            synthetic=False,
            target_fingerprint=run.target_fingerprint,
        )
        able = [one for one in runs if one.rewrites == run.rewrites and compile_trouble(one) is None]
        if able:
            found[batch] = min(
                able, key=lambda one: (one.estimated_latency_s is None, one.estimated_latency_s, -one.pk)
            )
    return found


def compiler_of(run: Run, versions: Mapping[str, str] | None = None, *, wait: bool = True) -> compilers.Compiler | None:
    """The older TVM that compiles the run, whose records or library are of these versions; the run's unless they are given.

    None for MetaSchedule's runs, and for others unless it is to `wait` and the answer isn't known. Raises `compilers.NoCompiler`.
    """
    if run.is_meta_schedule:
        return None
    return compilers.compiler_for(
        ENGINES[run.engine],
        run.interpreter,
        versions or run.versions,
        run.target,
        run.tuned_network.kind,
        remote=devices.is_remote(run.device),
        wait=wait,
    )


def record_coverage(run: Run, source: str) -> RecordCoverageDict:
    """Which tasks a compilation with the records of `source` would build untuned."""
    tasks = list(run.tasks.counting().defer("tensorir").order_by("index"))
    trouble = compile_trouble(run, source)
    missing = [] if trouble else _without_record(run, tasks, source)
    return {
        "source": source,
        "tasks": len(tasks),
        "untuned": [
            {"index": task.index, "name": task.name, "weight": task.weight, "why": _why_none(task, source)}
            for task in missing
        ],
        "trouble": trouble,
    }


def templates(tasks: Iterable[Task]) -> Iterable[list[Task]]:
    """AutoTVM's tasks of each layer: those of one operator with the same tensors."""
    found: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        operator = _OPERATOR.match(task.name)
        found.setdefault((operator[0] if operator else task.name, str(task.args)), []).append(task)
    return found.values()


def _without_record(run: Run, tasks: list[Task], source: str) -> list[Task]:
    """TVM builds AutoTVM's fastest template of a layer, so one with a record is enough."""
    if source == Compilation.Source.LIBRARY:
        older = compiler_of(run)
        known = workloads_with_records(run, older.found.tvm if older else None)
    else:
        known = set(Record.objects.filter(task__run=run).values_list("task__workload_hash", flat=True))
    layers = templates(tasks) if run.engine == "autotvm" else [[task] for task in tasks]
    lacking = [alike for alike in layers if not any(task.workload_hash in known for task in alike)]
    return sorted((task for alike in lacking for task in alike), key=lambda task: task.index)


def _why_none(task: Task, source: str) -> str:
    if source == Compilation.Source.LIBRARY:
        return "no run has a record of it for this target and TVM"
    if not task.chosen:
        return "it wasn't chosen to be tuned"
    if not task.trials:
        return "it has no trial yet"
    return f"all {task.trials:,} trials failed" if task.failed == task.trials else "none of its trials left a record"


def _unusable(run: Run) -> str | None:
    """Why it can never be compiled here."""
    if run.synthetic:
        return "The run is synthetic: its records can't be compiled."
    if is_vta(run.target):
        return VTA
    if run.network is None or not run.network.can_tune:
        return "Its network isn't known here, only its tasks. Upload the model and import the log again with its name."
    if not run.is_meta_schedule and run.network.kind == Network.Kind.BUILTIN and not _is_relays(run.network):
        return f"Its network {run.network.name} is defined by Tuneboard: older TVMs build those of tvm.relay.testing, and ONNX files."
    return None


def _is_relays(network: Network) -> bool:
    return bool(network.options.get("source") == "relay.testing")


def _older_trouble(run: Run, source: str, *, wait: bool) -> str | None:
    try:
        compiler = compiler_of(run, wait=wait)
    except compilers.NoCompiler as why:
        return str(why)
    if compiler is None or source == Compilation.Source.RUN:
        return None
    return None if is_known(run, compiler.found.tvm) else UNKNOWN


def other_tvm(versions: Mapping[str, str]) -> str | None:
    """Why records made by these versions can't be used here; None when they can, or when the versions weren't recorded."""
    here = in_use()
    other = [f"{name} {versions[name]}" for name in TVM if name in versions and versions[name] != here.get(name)]
    if not other:
        return None
    ours = " and ".join(f"{name} {here.get(name, 'none')}" for name in TVM)
    return (
        f"Its records were made by {' and '.join(other)}, but {ours} is installed here, which may read them differently. "
        "Tune the network again: a warm start begins with the records that still apply."
    )


def check_published(compilation: Compilation) -> None:
    """Raises `Conflict` when there is no library."""
    if not compilation.is_published:
        raise Conflict(f"There is no library: the compilation is {compilation.status}.")


def library_file(compilation: Compilation) -> File:
    """The shared library. Raises `Conflict`."""
    return _file(compilation, compilation.library, "application/octet-stream")


def manifest_file(compilation: Compilation) -> File:
    """What the library is, as JSON. Raises `Conflict`."""
    return _file(compilation, compilation.manifest, "application/json")


def log_file(compilation: Compilation) -> File:
    """What TVM, compilers and linker printed. Raises `Conflict` when there is no output."""
    return console_file(compilation, f"compilation-{compilation.pk}_console.log")


def _file(compilation: Compilation, path: Path, kind: str) -> File:
    check_published(compilation)
    try:
        size = store().length(path)
    except NotRegular as refused:
        raise Conflict(str(refused)) from refused
    if size is None:
        raise Conflict("The library's files are missing.")
    name = f"compilation-{compilation.pk}{path.suffix}"
    return File(name, kind, f"{name} {compilation.sha256}", file_pieces(path, size), size)
