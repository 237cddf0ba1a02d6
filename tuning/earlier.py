"""What earlier runs know of a run's tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from .engines.protocol import Earlier, EarlierRecord, TaskInfo
from .models import Record, Run

MOST = 16
"""Records of a task, the best of all earlier runs."""


def earlier_records(run: Run, tasks: Sequence[TaskInfo]) -> Earlier:
    """The fastest records of the run's chosen tasks, by earlier runs for the very same target."""
    index_of = {task.workload_hash: task.index for task in tasks if task.chosen}
    runs = _runs_with(run, list(index_of))
    found = Record.objects.filter(task__run__in=runs, task__workload_hash__in=index_of)
    best: dict[str, list[int]] = defaultdict(list)
    for key, shash in found.order_by("latency_s", "pk").values_list("pk", "task__workload_hash"):
        if len(best[shash]) < MOST:
            best[shash].append(key)
    # Texts are long, so only those that are sent are read.
    rows = Record.objects.filter(pk__in=[key for keys in best.values() for key in keys])
    columns = rows.order_by("latency_s", "pk").values_list("task__workload_hash", "task__run_id", "text")
    return Earlier([EarlierRecord(index_of[shash], source, text) for shash, source, text in columns])


def _runs_with(run: Run, hashes: list[str]) -> list[int]:
    """Compared here: databases differ in how they compare JSON."""
    others = Run.objects.exclude(pk=run.pk).filter(synthetic=False, tasks__workload_hash__in=hashes).distinct()
    return [key for key, target in others.values_list("pk", "target") if target == run.target]
