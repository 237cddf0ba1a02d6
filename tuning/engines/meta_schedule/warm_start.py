"""Gives TVM's search the records of earlier processes of the run and, with a warm start, of earlier runs."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tvm.s_tir import meta_schedule as ms

from tuning.engines.wire.protocol import KnownRecord, WarmStarted

TRAINING_RECORDS = 32
"""Records per task that the cost model is trained with."""
logger = logging.getLogger("tuneboard")


class PriorRecords:
    """Records from before this process. `own` are the run's, by task, and `known` those of earlier runs.

    They go into a database for the search only, because each line of the run's record file is a trial of the run.
    """

    def __init__(self, mods: list[Any], own: list[list[Any]], known: Iterable[KnownRecord]) -> None:
        self.database = ms.database.MemoryDatabase()
        self._workloads = [self.database.commit_workload(mod) for mod in mods]
        self._records = [[self._rebound(task, record) for record in records] for task, records in enumerate(own)]
        self._best_candidates: dict[int, Any] = {}
        runs = self._add(own, known)
        self.warm_started = WarmStarted(sorted(runs), sorted(set().union(*runs.values())))
        for records in self._records:
            for record in records:
                self.database.commit_tuning_record(record)

    def _add(self, own: list[list[Any]], known: Iterable[KnownRecord]) -> dict[int, set[int]]:
        """Take the records of earlier runs, and return by task the runs that they are from."""
        runs = defaultdict(set)
        for one in known:
            try:
                record = ms.database.TuningRecord.from_json(json.loads(one.text)[1], self._workloads[one.task])
                candidate = record.as_measure_candidate()
            except Exception as error:  # noqa: BLE001  a record of another version is no reason not to tune
                logger.warning("Ignored a record of run %d for task %d: %s", one.run, one.task, error)
                continue
            if not own[one.task]:
                self._best_candidates.setdefault(one.task, candidate)
            self._records[one.task].append(record)
            runs[one.task].add(one.run)
        return runs

    def _rebound(self, task: int, record: Any) -> Any:
        """The record with its workload in the search's database."""
        return ms.database.TuningRecord(
            record.trace, self._workloads[task], record.run_secs, record.target, record.args_info
        )

    def take_best_candidate(self, task: int) -> Any:
        """Return the best candidate of earlier runs the first time; None afterwards, or if there is none."""
        return self._best_candidates.pop(task, None)

    def train(self, cost_model: Any, contexts: dict[int, Any]) -> None:
        """Train the cost model with the records; `contexts` are by task."""
        for task, context in contexts.items():
            if records := self._records[task][:TRAINING_RECORDS]:
                results = [ms.runner.RunnerResult(record.run_secs, None) for record in records]
                cost_model.update(context, [record.as_measure_candidate() for record in records], results)
