"""The records of its project's earlier runs that a run starts from."""

from __future__ import annotations

from collections.abc import Sequence

from tuning.engines.wire.engines import ENGINES
from tuning.engines.wire.protocol import AnyTaskInfo, KnownRecord, WarmStart
from tuning.models import Run
from tuning.reads.library import known_records

MOST = 16
"""Records per task."""


def warm_starts(run: Run) -> bool:
    """Whether its engine waits for records of earlier runs."""
    return ENGINES[run.engine].options_of(run.options).warm_start


def warm_start(run: Run, tasks: Sequence[AnyTaskInfo]) -> WarmStart:
    """The best records of earlier runs for the run's chosen tasks and exactly its target."""
    index_of = {task.workload_hash: task.index for task in tasks if task.chosen}
    known = known_records(index_of, run.target, run.project_id, most=MOST, but=run)
    return WarmStart(
        [KnownRecord(index_of[shash], one.run, one.text) for shash in index_of for one in known.get(shash, [])]
    )
