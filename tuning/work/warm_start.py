"""Records of earlier runs for a run's tasks."""

from __future__ import annotations

from collections.abc import Sequence

from tuning.engines.wire.protocol import Earlier, EarlierRecord, TaskInfo
from tuning.models import Run
from tuning.reads.library import known_records

MOST = 16
"""Records per task."""


def earlier_records(run: Run, tasks: Sequence[TaskInfo]) -> Earlier:
    """The best records that earlier runs for the very same target have of the run's chosen tasks."""
    index_of = {task.workload_hash: task.index for task in tasks if task.chosen}
    known = known_records(index_of, run.target, most=MOST, but=run)
    return Earlier(
        [EarlierRecord(index_of[shash], one.run, one.text) for shash in index_of for one in known.get(shash, [])]
    )
