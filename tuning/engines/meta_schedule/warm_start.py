"""What was measured before, by earlier processes of this run and by earlier runs, shown to TVM's search."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tvm.s_tir import meta_schedule as ms

from tuning.engines.wire.protocol import KnownRecord, WarmStarted

LESSONS = 32
"""Records of a task that the cost model learns from."""
logger = logging.getLogger("tuneboard")


class Past:
    """A database of its own for the search, since a line of the run's record file is a trial of the run.

    `own` are the run's own records by task, `told` those of earlier runs.
    """

    def __init__(self, mods: list[Any], own: list[list[Any]], told: Iterable[KnownRecord]) -> None:
        self.database = ms.database.MemoryDatabase()
        self._workloads = [self.database.commit_workload(mod) for mod in mods]
        self._records = [[self._of_this(task, record) for record in records] for task, records in enumerate(own)]
        self._first: dict[int, Any] = {}
        runs = self._take(own, told)
        self.warm_started = WarmStarted(sorted(runs), sorted(set().union(*runs.values())))
        for records in self._records:
            for record in records:
                self.database.commit_tuning_record(record)

    def _take(self, own: list[list[Any]], told: Iterable[KnownRecord]) -> dict[int, set[int]]:
        """The runs that each task's records are from."""
        runs = defaultdict(set)
        for earlier in told:
            try:
                record = ms.database.TuningRecord.from_json(json.loads(earlier.text)[1], self._workloads[earlier.task])
                candidate = record.as_measure_candidate()
            except Exception as error:  # noqa: BLE001  whatever another version wrote is no reason not to tune
                logger.warning("Passed over a record of run %d for task %d: %s", earlier.run, earlier.task, error)
                continue
            if not own[earlier.task]:
                self._first.setdefault(earlier.task, candidate)
            self._records[earlier.task].append(record)
            runs[earlier.task].add(earlier.run)
        return runs

    def _of_this(self, task: int, record: Any) -> Any:
        """The record as one of the search's own database."""
        return ms.database.TuningRecord(
            record.trace, self._workloads[task], record.run_secs, record.target, record.args_info
        )

    def first(self, task: int) -> Any:
        """The candidate that was an earlier run's best, once; None when there is none."""
        return self._first.pop(task, None)

    def teach(self, cost_model: Any, contexts: dict[int, Any]) -> None:
        """Have the cost model learn from the records; `contexts` by task."""
        for task, context in contexts.items():
            if records := self._records[task][:LESSONS]:
                results = [ms.runner.RunnerResult(record.run_secs, None) for record in records]
                cost_model.update(context, [record.as_measure_candidate() for record in records], results)
