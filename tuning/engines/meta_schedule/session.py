"""One engine process once TVM is loaded: target, tasks, what earlier processes did, then the search."""

from __future__ import annotations

import logging
import os
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NoReturn

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from tuning.engines import networks
from tuning.engines.forking import fork_server
from tuning.engines.networks import extraction
from tuning.engines.targets import cuda, intrinsics
from tuning.engines.targets.resolving import Resolved, TargetRefused, kind_of, knows_float16, resolve
from tuning.engines.wire.errors import Refused, RunRefused
from tuning.engines.wire.protocol import Phase, Start, TaskInfo, TasksExtracted
from tuning.logs import meta_schedule

from .pipes import Inbox, Outbox
from .search import Search, Setting, tune
from .trials import Trials
from .warm_start import Past

logger = logging.getLogger("tuneboard")
INTRINSICS = "TUNEBOARD_INTRINSICS"
"""Environment variable that tells a fork server which tensor intrinsics its workers need."""


def run(start: Start, inbox: Inbox, outbox: Outbox) -> NoReturn:
    """Tune until the budget is used up, and end the process. Raises `RunRefused`."""
    work_dir = Path(start.work_dir)
    work_dir.mkdir(parents=True, exist_ok=True)
    context = _fork_server(start)
    inbox.watch()
    resolved = _resolved(start)
    target = Target(resolved.target)
    outbox.send(Phase("extracting"))
    extracted = _extracted(start, target)
    chosen = _chosen(start, len(extracted))
    infos = [extraction.describe(index, task, chosen=index in chosen) for index, task in enumerate(extracted)]
    _check_float16(start, infos, target)
    outbox.send(TasksExtracted(resolved.target, infos))
    trials = Trials(start, infos, outbox, inbox.began)
    earlier = inbox.earlier.get().records if start.expect_warm_start else []
    inbox.on_stop = trials.stop
    trials.limit_time(start.time_limit_s)
    inbox.hear_extensions(trials.extend)
    database, workloads = _database(start, work_dir, extracted, trials)
    if trials.left:
        index = {info.name: info.index for info in infos}
        own = [list(database.get_top_k(workload, len(database))) for workload in workloads]
        past = Past([task.dispatched[0] for task in extracted], own, earlier)
        if past.warm_started.tasks:
            outbox.send(past.warm_started)
        setting = Setting(start.options, work_dir, target, context, start.remote)
        tune(extracted, Search(trials, index, target, past), setting)
    trials.finish(trials.why_no_more())


def _chosen(start: Start, tasks: int) -> set[int]:
    chosen = set(start.options.tasks if start.options.tasks is not None else range(tasks))
    if beyond := sorted(chosen - set(range(tasks))):
        raise RunRefused(
            f"{start.network.name} has no task {', '.join(map(str, beyond))}: it has {tasks}, numbered from 0.", "tasks"
        )
    return chosen


def _fork_server(start: Start) -> ForkServerContext:
    """Forked before a thread is started or a GPU touched: CUDA, once in use, doesn't work in a forked process."""
    try:
        kind = kind_of(start.target)
    except TargetRefused as refused:
        raise RunRefused(str(refused), "target") from refused
    os.environ[INTRINSICS] = intrinsics.kind_for(kind, start.target)
    intrinsics.load(os.environ[INTRINSICS])
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
    without = (
        "The target's CPU has no instruction for float16 (f16c), as a bare llvm target hasn't: name the CPU (mcpu)"
    )
    if start.network.file:
        raise RunRefused(f"{without}; {start.network.name} computes in it.", "target")
    raise RunRefused(f"{without}, or choose float32.", "network_options.dtype")


def _extracted(start: Start, target: Target) -> list[Any]:
    mod = extraction.legalized(_built(start), target)
    extracted = extraction.extract(mod, target)
    if not extracted:
        raise RunRefused(f"{start.network.name} has no function to tune.", "network")
    return extracted


def _built(start: Start) -> Any:
    try:
        return networks.build(start.network).mod
    except Refused as error:
        raise RunRefused(f"{start.network.name}: {error}", "network") from error


def _database(start: Start, work_dir: Path, extracted: list[Any], trials: Trials) -> tuple[Any, list[Any]]:
    """The run's database with its line n for trial n, and each task's workload in it."""
    for said in meta_schedule.repair(work_dir):
        logger.warning("%s", said)
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    workloads = [database.commit_workload(task.dispatched[0]) for task in extracted]
    earlier = meta_schedule.recorded(work_dir)
    task_of = _task_by_line(work_dir, workloads)
    trials.recover([(task_of[line.workload], line) for line in earlier])
    meta_schedule.pad(work_dir, start.trials_done - len(earlier))
    trials.open(work_dir, database, workloads)
    return database, workloads


def _task_by_line(work_dir: Path, workloads: list[Any]) -> dict[int, int]:
    """Task by the line of its workload."""
    task_of = {str(workload.as_json()[0]): task for task, workload in enumerate(workloads)}
    try:
        return {line: task_of[shash] for line, shash in enumerate(meta_schedule.workload_hashes(work_dir))}
    except KeyError as error:
        raise RunRefused(
            f"{work_dir / meta_schedule.WORKLOADS} holds a function that is none of this run's tasks: was it made by another TVM?"
        ) from error
