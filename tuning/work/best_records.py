"""The records that a compilation is built with, and the latency that they promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tuning.engines.wire.compiling import BestRecord
from tuning.estimate import total, weighted
from tuning.models import Compilation, Record, Run, Task
from tuning.reads.artifacts import templates
from tuning.reads.library import known_records, tvm

Parts = list["float | None"]


def best_records(run: Run, source: str, by: str | None = None) -> tuple[list[BestRecord], float | None]:
    """The records to compile with, at most one per task, and the estimate in seconds if every task has one.

    `by` is the version of the TVM that compiles them, if that isn't the installed one.
    """
    tasks = list(run.tasks.order_by("index"))
    best = _of_library(run, tasks, by or tvm()) if source == Compilation.Source.LIBRARY else best_of_run(run)
    found = {task.workload_hash: best[task.workload_hash] for task in tasks if task.workload_hash in best}
    latencies = {shash: record.latency_s for shash, record in found.items()}
    parts = _of_layers(tasks, latencies) if run.engine == "autotvm" else _of_tasks(tasks, latencies)
    return list(found.values()), total(parts)


def best_of_run(run: Run) -> dict[str, BestRecord]:
    """The run's best record of each workload, by the workload's hash."""
    rows = Record.objects.filter(task__run=run).best_first().reverse().select_related("task")
    return {row.task.workload_hash: BestRecord(run.pk, row.trial, row.promised_s, row.text) for row in rows}


def _of_library(run: Run, tasks: list[Task], by: str | None) -> dict[str, BestRecord]:
    """Records by that TVM only: those by another may no longer apply."""
    known = known_records([task.workload_hash for task in tasks], run.target, run.project_id, by=by)
    firsts = [few[0] for few in known.values() if few[0].tvm == by]
    return {one.workload_hash: BestRecord(one.run, one.trial, one.latency_s, one.text) for one in firsts}


def _of_tasks(tasks: Iterable[Task], latencies: Mapping[str, float]) -> Parts:
    """Each task's part of the estimate."""
    return [weighted(latencies.get(task.workload_hash), task.weight) for task in tasks]


def _of_layers(tasks: Iterable[Task], latencies: Mapping[str, float]) -> Parts:
    """Each layer's part: AutoTVM may have several templates for one, of which TVM builds the fastest. All but one have the weight 0."""
    parts: Parts = []
    for alike in templates(tasks):
        counting = [task for task in alike if task.weight != 0]
        if len(counting) == 1:
            known = [latencies[task.workload_hash] for task in alike if task.workload_hash in latencies]
            parts.append(weighted(min(known, default=None), counting[0].weight))
        else:
            parts += _of_tasks(alike, latencies)
    return parts
