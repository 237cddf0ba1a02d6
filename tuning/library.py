"""The tuning library: the best that is known of a workload for a target, over all runs.

Short measurements take no part: no task's best is one, and no record of one is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from .engines.versions import installed
from .models import Record, Run, Task, doubt, fingerprint


class Known(NamedTuple):
    """A record that some run has of a workload; `latency_s` in seconds."""

    record: int
    workload_hash: str
    latency_s: float
    run: int
    task: int
    """Its index in that run."""
    trial: int
    tvm: str | None
    """The apache-tvm that measured it, if that is recorded."""
    text: str


def known_records(
    hashes: Iterable[str], target: dict[str, Any], *, most: int = 1, but: Run | None = None
) -> dict[str, list[Known]]:
    """The best `most` records of each workload for the very same target over all runs, `but` one; none of synthetic runs.

    The best stands first, where any of the installed TVM comes before all of others: those may no longer apply.
    """
    found = Record.objects.filter(
        task__workload_hash__in=set(hashes),
        task__run__target_fingerprint=fingerprint(target),
        task__run__synthetic=False,
    )
    if but is not None:
        found = found.exclude(task__run=but)
    keys: dict[str, list[int]] = defaultdict(list)
    ranked = found.order_by(doubt("task__run", tvm()), "latency_s", "pk")
    for key, shash in ranked.values_list("pk", "task__workload_hash"):
        if len(keys[shash]) < most:
            keys[shash].append(key)
    texts = _whole([key for few in keys.values() for key in few])
    return {shash: [texts[key] for key in few] for shash, few in keys.items()}


def tvm() -> str | None:
    """The installed apache-tvm's version."""
    return installed("apache-tvm")


def _whole(keys: list[int]) -> dict[int, Known]:
    """Texts are long, so only those that are asked for are read."""
    rows = Record.objects.filter(pk__in=keys).select_related("task__run")
    return {row.pk: _known(row, row.task, row.task.run) for row in rows.defer("task__tensorir", "task__args")}


def _known(record: Record, task: Task, run: Run) -> Known:
    version = run.versions.get("apache-tvm")
    return Known(
        record.pk, task.workload_hash, record.latency_s, run.pk, task.index, record.trial, version, record.text
    )
