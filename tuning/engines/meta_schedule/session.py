"""One engine process after TVM is loaded: target, tasks, records of earlier processes, then tuning."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from tuning.engines import networks, records
from tuning.engines.confinement import confine_in
from tuning.engines.events import EventWriter
from tuning.engines.forking import fork_server
from tuning.engines.measuring import roofline
from tuning.engines.networks import extraction, reuse
from tuning.engines.targets import cuda, intrinsics
from tuning.engines.targets.dot_products import instruction_of
from tuning.engines.targets.here import measures_beside, measures_on_cpu, threads_to_measure
from tuning.engines.targets.resolving import Resolved, kind_of, knows_float16, needs, resolve
from tuning.engines.wire.errors import Refused, RunRefused
from tuning.engines.wire.protocol import Phase, Start, TaskInfo, TasksExtracted, WarmStart
from tuning.engines.wire.question import Reach
from tuning.engines.wire.target_fields import TargetRefused
from tuning.engines.wire.targets import pairs_of_bfloat16
from tuning.logs.meta_schedule import WORKLOADS, pad, record_lines, repair, workload_hashes

from .controls import ControlReader
from .earlier.neighbours import Neighbours
from .earlier.warm_start import PriorRecords, read_continued
from .loop import TuningConfig, tune
from .pooled import CandidatesOut
from .search import Search
from .trial_budget import TrialBudget, pooled_batch
from .trials import Trials

logger = logging.getLogger("tuneboard")


def run(start: Start, controls: ControlReader, events: EventWriter) -> NoReturn:
    """Tune until the budget is used up, and end the process. Raises `RunRefused`."""
    work_dir = Path(start.work_dir)
    work_dir.mkdir(parents=True, exist_ok=True)
    if start.pool:
        batch = pooled_batch(start.options, start.pool.slots, start.trials_budget)
        start = msgspec.structs.replace(start, options=msgspec.structs.replace(start.options, trials_per_batch=batch))
    _confine(start, work_dir)
    context = _fork_server(start)
    controls.watch()
    resolved = _resolved(start)
    target = Target(resolved.target)
    events.send(Phase("extracting"))
    mod = _in_precision(start, _built(start, target), resolved)
    legalized = extraction.legalized(mod, target)
    extracted, rivals = _extracted(start, mod, legalized, target)
    chosen = _chosen(start, len(extracted) - len(rivals), rivals)
    computes = {index: extraction.workload_hash(extracted[of]) for index, of in rivals.items()}
    in_network = [extracted[rivals.get(index, index)] for index in range(len(extracted))]
    cold_bytes, of_each = _cold_bytes(start, legalized, target, in_network)
    infos = [
        extraction.describe(
            index, task, chosen=index in chosen, computes=computes.get(index), cold_bytes=of_each[index]
        )
        for index, task in enumerate(extracted)
    ]
    _check_float16(start, infos, target)
    events.send(TasksExtracted(resolved.target, infos, cold_bytes))
    for index in _left_out(infos, rivals, start):
        infos[index] = msgspec.structs.replace(infos[index], chosen=False)
        del rivals[index]
    beside = measures_beside(start.options.overlap, target, remote=start.remote is not None)
    budget = _budget(start, infos, rivals, ahead=beside or start.pool is not None)
    trials = Trials(start, infos, budget, events, controls.started_at)
    known = controls.warm_start() if start.expect_warm_start else WarmStart([])
    controls.on_stop = trials.stop
    trials.limit_time(start.time_limit_s)
    controls.watch_extensions(trials.extend)
    database, workloads = _database(start, work_dir, extracted, trials)
    if trials.left:
        if start.rooflines is not None and measures_on_cpu(target) and resolved.target not in start.rooflines:
            _measure_roofline(context, target, trials, events)
        own = [list(database.get_top_k(workload, len(database))) for workload in workloads]
        mods = [task.dispatched[0] for task in extracted]
        prior = PriorRecords(
            mods, own, known.records, read_continued(start.continued, work_dir, mods, chosen), known.similar
        )
        if prior.warm_started.tasks:
            events.send(prior.warm_started)
        neighbours = Neighbours(infos) if start.options.neighbours else None
        search = Search(trials, {info.name: info.index for info in infos}, target, prior, neighbours)
        out = CandidatesOut(start, trials, target, events, controls.from_pool) if start.pool else None
        tune(
            extracted,
            search,
            TuningConfig(start.options, work_dir, target, context, beside, start.remote, out, start.reference),
        )
    trials.finish(trials.finish_reason())


def _confine(start: Start, work_dir: Path) -> None:
    """Keep this process, and the builds and measurements that it forks, from the site's other files and from the network."""
    reach = Reach(start.network.paths(), (str(work_dir),), network=start.remote is not None)
    logger.info("%s", confine_in(start.scratch, reach))


def _measure_roofline(context: ForkServerContext, target: Any, trials: Trials, events: EventWriter) -> None:
    """Tell what this machine does at best. The run does without it if that fails."""
    trials.report_phase("roofline")
    found = roofline.measured(context, target, threads_to_measure(target))
    if isinstance(found, str):
        logger.warning("The machine's roofline couldn't be measured: %s", found)
        return
    least, most = (rate for _, rate in (found.bandwidths[-1], found.bandwidths[0]))
    logger.info(
        "Roofline: %.1f GFLOPS, %.1f to %.1f GB/s on %d threads, measured in %.1f s.",
        found.flops / 1e9,
        least / 1e9,
        most / 1e9,
        found.threads,
        found.took_s,
    )
    events.send(found)


def _chosen(start: Start, tasks: int, rivals: Mapping[int, int]) -> set[int]:
    """The tasks to tune, of those of the network, and with each the one that computes the same."""
    chosen = set(start.options.tasks if start.options.tasks is not None else range(tasks))
    if unknown := sorted(chosen - set(range(tasks))):
        raise RunRefused(
            f"{start.network.name} has no task {', '.join(map(str, unknown))}: its {tasks} are numbered from 0.",
            "tasks",
        )
    return chosen | {index for index, of in rivals.items() if of in chosen}


def _left_out(infos: list[TaskInfo], rivals: Mapping[int, int], start: Start) -> list[int]:
    """The rivals that there are too few trials for."""
    of = {index: infos[of] for index, of in rivals.items() if infos[index].chosen}
    affordable = start.options.affordable_rivals(start.trials_budget, sum(info.chosen for info in infos) - len(of))
    most_work_first = sorted(of, key=lambda index: -of[index].flop * (of[index].weight or 0))
    left_out = sorted(most_work_first[affordable:])
    if left_out:
        logger.warning(
            "%d trials are too few to try another algorithm for each convolution. Not tried for task %s.",
            start.trials_budget,
            ", ".join(str(of[index].index) for index in left_out),
        )
    return left_out


def _budget(start: Start, infos: Sequence[TaskInfo], rivals: Mapping[int, int], *, ahead: bool) -> TrialBudget:
    both_ways = {**rivals, **{of: index for index, of in rivals.items()}}
    return TrialBudget(
        [info.weight or infos[both_ways.get(info.index, info.index)].weight for info in infos],
        [info.index for info in infos if info.chosen],
        start.options,
        ahead=ahead,
        rivals=both_ways,
    )


def _fork_server(start: Start) -> ForkServerContext:
    """Fork before a thread starts or a GPU is touched: once in use, CUDA doesn't work in a forked process."""
    try:
        kind = kind_of(start.target)
    except TargetRefused as refused:
        raise RunRefused(str(refused), "target") from refused
    intrinsics.load_with_workers(intrinsics.kind_for(kind, start.target))
    cuda.choose_compiler()
    return fork_server.start_fork_server(["tuning.engines.meta_schedule.preloaded"])


def _resolved(start: Start) -> Resolved:
    try:
        return resolve(start.target, remote=start.remote is not None)
    except TargetRefused as refused:
        raise RunRefused(str(refused), "target") from refused


def _check_float16(start: Start, infos: list[TaskInfo], target: Target) -> None:
    if knows_float16(target) or not any("float16" in info.tensorir for info in infos):
        return
    reason = "The target's CPU has no float16 instructions (f16c), nor does a bare llvm target: name the CPU (mcpu)"
    if start.network.file:
        raise RunRefused(f"{reason}, because {start.network.name} computes in float16.", "target")
    raise RunRefused(f"{reason}, or choose float32.", "network_options.dtype")


def _cold_bytes(start: Start, legalized: Any, target: Target, tasks: Sequence[Any]) -> tuple[int, Sequence[int | None]]:
    """As in `TasksExtracted`, and for each of the network's tasks as in its description.

    How cold a remote device's caches are isn't up to this machine, and GPUs are left as they are.
    """
    if not (start.options.cold_weights and measures_on_cpu(target) and start.remote is None):
        return 0, [None] * len(tasks)
    touched = reuse.touched(legalized)
    return touched.inference, [touched.functions.get(str(task.task_name), touched.inference) for task in tasks]


def _extracted(start: Start, mod: Any, legalized: Any, target: Target) -> tuple[list[Any], dict[int, int]]:
    """The network's tasks, then those that compute the same as one of them by another algorithm, and by the index of these which one."""
    extracted = extraction.extract(legalized, target)
    if not extracted:
        raise RunRefused(f"{start.network.name} has no functions to tune.", "network")
    if not start.options.rewrites.algorithms or str(target.kind.name) != "llvm":
        return extracted, {}
    from tuning.engines.networks import algorithms

    found = algorithms.rivals(mod, target, extracted, in_parts=start.options.rewrites.in_parts)
    return [*extracted, *(rival.task for rival in found)], {
        len(extracted) + nth: rival.of for nth, rival in enumerate(found)
    }


def _built(start: Start, target: Target) -> Any:
    rewrites = start.options.rewrites
    instruction = instruction_of(target) if rewrites.integers else None
    if start.options.quantized == "integers" and instruction is None:
        raise RunRefused(_without_instruction(target), "quantized")
    try:
        network = networks.build(start.network, instruction=instruction)
    except Refused as error:
        raise RunRefused(f"{start.network.name}: {error}", "network") from error
    if rewrites.integers and network.quantized and any(network.quantized[:2]):
        logger.info("%s", network.quantized)
    return networks.as_tuned(network, target, rewrites)


def _in_precision(start: Start, mod: Any, resolved: Resolved) -> Any:
    """The network in the precision that the run asks for."""
    if start.options.precision == "network":
        return mod
    from tuning.engines.networks.bfloat16.rewriting import in_bfloat16

    pairs = pairs_of_bfloat16(needs(resolved.target))
    if isinstance(pairs, str):
        raise RunRefused(pairs, "precision")
    try:
        return in_bfloat16(mod, pairs)
    except Refused as error:
        raise RunRefused(f"{start.network.name}: {error}", "precision") from error


def _without_instruction(target: Target) -> str:
    """Why quantized operators can't be computed in integers."""
    if str(target.kind.name) != "llvm":
        return f"Quantized operators are computed in integers on CPUs only, not by {target.kind.name}: choose auto."
    return (
        "The target's CPU has no instructions for products of 8-bit integers (AVX-512 VNNI, AVX-VNNI, or Arm's dot product), "
        "nor does a bare llvm target: name the CPU (mcpu), or choose auto."
    )


def _database(start: Start, work_dir: Path, extracted: list[Any], trials: Trials) -> tuple[Any, list[Any]]:
    """The run's database, whose line n is trial n, and the workload of each task in it."""
    own = records.lines_of(task.dispatched[0] for task in extracted)
    messages = repair(work_dir)
    task_of = _task_by_workload(work_dir, list(own))
    for message in (*messages, *records.keep_usable(work_dir, own)):
        logger.warning("%s", message)
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    workloads = [database.commit_workload(task.dispatched[0]) for task in extracted]
    lines = record_lines(work_dir)
    trials.recover([(task_of[line.workload], line) for line in lines])
    pad(work_dir, start.trials_done - len(lines))
    trials.open_records(work_dir, database, workloads)
    return database, workloads


def _task_by_workload(work_dir: Path, hashes: Sequence[str]) -> dict[int, int]:
    """Tasks by the line of their workload in the workload file. `hashes` are those of the tasks' workloads."""
    task_of = {shash: task for task, shash in enumerate(hashes)}
    try:
        return {line: task_of[shash] for line, shash in enumerate(workload_hashes(work_dir))}
    except KeyError as error:
        raise RunRefused(
            f"{work_dir / WORKLOADS} holds a function that isn't one of this run's tasks. "
            "Was it written by another version of TVM?"
        ) from error
