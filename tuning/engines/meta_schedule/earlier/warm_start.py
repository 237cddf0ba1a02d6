"""Gives TVM's search the records of earlier processes of the run, of the run that it continues and, with a warm start, of others."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from tvm.s_tir import meta_schedule as ms

from tuning.engines.records import check, keep_usable, lines_of
from tuning.engines.wire.errors import RunRefused, in_one_line
from tuning.engines.wire.protocol import Adapted, Begun, KnownRecord, WarmStarted
from tuning.logs.meta_schedule import CONTINUED, repair

from .adapting import Space

TRAINING_RECORDS = 32
"""Records per task that the cost model is trained with."""
CONTINUED_RECORDS = 1024
"""Records of the run that is continued that it is trained with, besides. Each must be replayed, which takes some milliseconds."""
CLAIMED = 3
"""Candidates of a task whose records were imported or streamed."""
ADAPTED = 3
"""Candidates of a task that are adapted from similar ones."""
logger = logging.getLogger("tuneboard")


@dataclass(frozen=True)
class Continued:
    """The valid records of the run that this one continues, by task, fastest first."""

    run: int
    records: Sequence[Sequence[Any]]


def read_continued(run: int | None, work_dir: Path, mods: list[Any], chosen: Container[int]) -> Continued | None:
    """What the supervisor has brought of that run, of the chosen tasks. Raises `RunRefused` if this TVM can't read it."""
    if run is None:
        return None
    try:
        repair(work_dir / CONTINUED)
        for message in keep_usable(work_dir / CONTINUED, lines_of(mods)):
            logger.warning("Of run %d, which this one continues: %s", run, message)
        database = ms.database.JSONDatabase(work_dir=str(work_dir / CONTINUED))
        return Continued(run, [_records_of(database, mod) if task in chosen else [] for task, mod in enumerate(mods)])
    except Exception as error:
        raise RunRefused(
            f"The records of run {run}, which this one continues, can't be read: {error}", "continues"
        ) from error


def _records_of(database: Any, mod: Any) -> list[Any]:
    if not database.has_workload(mod):
        return []
    return list(database.get_top_k(database.commit_workload(mod), len(database)))


class PriorRecords:
    """Records from before this process. `own` are the run's, by task, and `known` those of earlier runs.

    They go into a database for the search only, because each line of the run's record file is a trial of the run.
    """

    def __init__(
        self,
        mods: list[Any],
        own: list[list[Any]],
        known: Iterable[KnownRecord],
        continued: Continued | None = None,
        similar: Sequence[KnownRecord] = (),
    ) -> None:
        self._similar = similar
        self._adapted: dict[int, list[Any]] = defaultdict(list)
        self._claimed: dict[int, list[Any]] = defaultdict(list)
        """Candidates of records that this site hasn't measured, by task, which are measured before anything is learned from them."""
        self.database = ms.database.MemoryDatabase()
        self._workloads = [self.database.commit_workload(mod) for mod in mods]
        self._continued = continued or Continued(0, [[] for _ in mods])
        self._before = [self._all_rebound(task, records) for task, records in enumerate(self._continued.records)]
        self._records = [self._all_rebound(task, records) for task, records in enumerate(own)]
        self._best_candidates: dict[int, Any] = {}
        self._begun: dict[int, Begun] = {}
        runs = self._add(own, known)
        self.warm_started = WarmStarted(
            sorted(runs), sorted(set().union(*runs.values())), [self._begun[task] for task in sorted(self._begun)]
        )
        for before, records in zip(self._before, self._records, strict=True):
            for record in (*before, *records):
                self.database.commit_tuning_record(record)

    def _add(self, own: list[list[Any]], known: Iterable[KnownRecord]) -> dict[int, set[int]]:
        """Take the records of earlier runs, and return by task the runs that they are from."""
        runs = defaultdict(set, {task: {self._continued.run} for task, records in enumerate(self._before) if records})
        for one in known:
            try:
                record = check(one.text).on(self._workloads[one.task])
                candidate = record.as_measure_candidate()
            except Exception as error:  # noqa: BLE001  a record of another version is no reason not to tune
                logger.warning("Ignored a record of run %d for task %d: %s", one.run, one.task, error)
                continue
            runs[one.task].add(one.run)
            if not one.is_measured:
                self._claimed[one.task].append(candidate)
                continue
            if not own[one.task] and one.task not in self._begun:
                self._best_candidates[one.task] = candidate
                latency_s = _latency_s(record) if one.latency_s is None else one.latency_s
                self._begun[one.task] = Begun(one.task, one.run, latency_s)
            if one.run != self._continued.run:  # All records of that one are there already.
                self._records[one.task].append(record)
        return runs

    def _all_rebound(self, task: int, records: Sequence[Any]) -> list[Any]:
        return [self._rebound(task, record) for record in records]

    def _rebound(self, task: int, record: Any) -> Any:
        """The record with its workload in the search's database."""
        return ms.database.TuningRecord(
            record.trace, self._workloads[task], record.run_secs, record.target, record.args_info
        )

    def take_best_candidate(self, task: int) -> Any:
        """Return the best candidate of earlier runs the first time; None afterwards, or if there is none."""
        return self._best_candidates.pop(task, None)

    def best(self, task: int) -> tuple[float, Any] | None:
        """Latency in seconds and trace of the task's fastest record; None if there is none."""
        known = ((_latency_s(record), record.trace) for record in (*self._records[task], *self._before[task]))
        return min(known, key=itemgetter(0), default=None)

    def adapt(self, spaces: Mapping[int, Space]) -> Adapted:
        """Adapt schedules of similar workloads to the tasks that nothing is known of; `spaces` are by task."""
        by_task: dict[int, list[KnownRecord]] = defaultdict(list)
        for one in self._similar:
            if one.task in spaces and not self._records[one.task] and not self._before[one.task]:
                by_task[one.task].append(one)
        runs: set[int] = set()
        for task, records in by_task.items():
            found = list(islice(_adapted(records, spaces[task]), ADAPTED))
            self._adapted[task] = [candidate for _, candidate in found]
            runs |= {run for run, _ in found}
        return Adapted(sorted(task for task, candidates in self._adapted.items() if candidates), sorted(runs))

    def take_adapted(self, task: int, most: int) -> list[Any]:
        """Return candidates of imported records and those that were adapted to the task, the most similar one's first, each once."""
        left = [*self._claimed.pop(task, [])[:CLAIMED], *self._adapted[task]]
        taken, self._adapted[task] = left[:most], left[most:]
        return taken

    def train(self, cost_model: Any, contexts: dict[int, Any]) -> None:
        """Train the cost model with the records; `contexts` are by task."""
        share = CONTINUED_RECORDS // len(contexts)
        for task, context in contexts.items():
            if records := _thinned(self._before[task], share) + self._records[task][:TRAINING_RECORDS]:
                results = [ms.runner.RunnerResult(record.run_secs, None) for record in records]
                cost_model.update(context, [record.as_measure_candidate() for record in records], results)


def _latency_s(record: Any) -> float:
    return fmean(map(float, record.run_secs))


def _adapted(records: Iterable[KnownRecord], space: Space) -> Iterator[tuple[int, Any]]:
    """The candidates that can be made of the records, each with the run that its record is from."""
    for one in records:
        try:
            candidate = space.adapted_record(one.text)
        except Exception as error:  # noqa: BLE001  what isn't valid is no reason not to tune
            logger.warning("Ignored a record of run %d, similar to task %d: %s", one.run, one.task, in_one_line(error))
            continue
        if candidate is not None:
            yield one.run, candidate


def _thinned(records: list[Any], most: int) -> list[Any]:
    """The first, and every so many of the others, so that fast and slow ones are among them."""
    return records[:: max(1, -(-len(records) // max(1, most)))]
