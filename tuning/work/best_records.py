"""The records that a compilation is built with, and the latency that they promise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tuning.engines.wire.compiling import BestRecord
from tuning.estimate import total, weighted
from tuning.models import Compilation, Record, Run, Task
from tuning.models.task import of_network
from tuning.reads.artifacts import templates
from tuning.reads.library import KnownRecord, known_records, tvm

Parts = list["float | None"]
TRIED = 4
"""Of each task, so many of the best records are measured inside the network."""
NEAR = 1.5
"""Of those that took at most so many times as long as the best one alone. Records that won inside took up to 1.35 times as long."""


def best_records(
    run: Run, source: str, by: str | None = None, *, imported: bool = False
) -> tuple[list[BestRecord], float | None]:
    """The records to compile with, at most one per task, and the estimate in seconds if every task has one that was measured here.

    `by` is the version of the TVM that compiles them, if that isn't the installed one. Imported records of other runs are taken for tasks
    without another one, if `imported`.
    """
    tasks = list(run.tasks.counting().order_by("index"))
    best = (
        _of_library(run, tasks, by or tvm(), imported=imported)
        if source == Compilation.Source.LIBRARY
        else best_of_run(run)
    )
    found = {task.workload_hash: best[task.workload_hash] for task in tasks if task.workload_hash in best}
    latencies = {shash: record.latency_s for shash, record in found.items() if record.is_measured}
    parts = _of_layers(tasks, latencies) if run.engine == "autotvm" else _of_tasks(tasks, latencies)
    return list(found.values()), total(parts)


def alternatives(
    run: Run, source: str, records: Iterable[BestRecord], *, imported: bool = False
) -> list[list[BestRecord]]:
    """For each of these best records, the next best of its workload, which may be faster inside the network."""
    found = (
        _several_of_library(run, imported=imported) if source == Compilation.Source.LIBRARY else _several_of_run(run)
    )
    of = {(record.run, record.trial): several for several in found for record in several}
    return [_next_to(best, of.get((best.run, best.trial), [])) for best in records]


def _next_to(best: BestRecord, several: Iterable[BestRecord]) -> list[BestRecord]:
    near = [one for one in several if one.latency_s <= NEAR * best.latency_s]
    others = [one for one in near if (one.run, one.trial) != (best.run, best.trial)]
    measured, claimed = ([one for one in others if one.is_measured == here] for here in (True, False))
    return [*measured[: TRIED - 1], *claimed[: TRIED - 1]]


def _several_of_run(run: Run) -> Iterable[list[BestRecord]]:
    found: dict[str, list[BestRecord]] = defaultdict(list)
    for row in Record.objects.filter(task__run=run).best_first().select_related("task__run"):
        if row.trouble is None:
            found[row.task.workload_hash].append(_of_row(row))
    return found.values()


def _several_of_library(run: Run, *, imported: bool) -> Iterable[list[BestRecord]]:
    """The records of each workload, with the imported ones after those that were measured here."""
    hashes = run.tasks.values_list("workload_hash", flat=True)
    known = known_records(hashes, run.target, run.project_id, most=TRIED)
    more = known_records(hashes, run.target, run.project_id, most=TRIED, imported=True) if imported else {}
    several = ([*known.get(shash, []), *more.get(shash, [])] for shash in known | more)
    return [[_known(record) for record in few if record.tvm == tvm()] for few in several]


def best_of_run(run: Run) -> dict[str, BestRecord]:
    """The run's best record of each workload, by the workload's hash."""
    rows = Record.objects.filter(task__run=run).best_first().reverse().select_related("task__run")
    return {row.task.workload_hash: _of_row(row) for row in rows if row.trouble is None}


def best_by_function(run: Run) -> dict[str, BestRecord]:
    """For each function of the network (`Task.function`), the run's best record by the algorithm that counts."""
    best = best_of_run(run)
    tasks = of_network(run.tasks.order_by("index"))
    return {task.function: best[task.workload_hash] for task in tasks if task.workload_hash in best}


def _of_row(row: Record) -> BestRecord:
    return BestRecord(row.task.run_id, row.trial, row.promised_s, row.text)


def _of_library(run: Run, tasks: list[Task], by: str | None, *, imported: bool) -> dict[str, BestRecord]:
    """Records by that TVM only: those by another may no longer apply."""
    hashes = [task.workload_hash for task in tasks]
    known = known_records(hashes, run.target, run.project_id, by=by)
    more = known_records(hashes, run.target, run.project_id, by=by, imported=True) if imported else {}
    firsts = [few[0] for few in (*more.values(), *known.values()) if few[0].tvm == by]
    return {record.workload_hash: _known(record) for record in firsts}


def _known(record: KnownRecord) -> BestRecord:
    return BestRecord(record.run, record.trial, record.latency_s, record.text, not record.is_imported)


def _of_tasks(tasks: Iterable[Task], latencies: Mapping[str, float]) -> Parts:
    """Each task's part of the estimate."""
    return [weighted(latencies.get(task.workload_hash), task.weight) for task in tasks]


def _of_layers(tasks: Iterable[Task], latencies: Mapping[str, float]) -> Parts:
    """Each layer's part: AutoTVM may have several templates for one, of which TVM builds the fastest. All but one have the weight 0."""
    parts: Parts = []
    for alike in templates(tasks):
        counting = [task for task in alike if not task.is_spare]
        if len(counting) == 1:
            known = [latencies[task.workload_hash] for task in alike if task.workload_hash in latencies]
            parts.append(weighted(min(known, default=None), counting[0].weight))
        else:
            parts += _of_tasks(alike, latencies)
    return parts
