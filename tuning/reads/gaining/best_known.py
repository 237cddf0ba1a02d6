"""The best that other runs have reached for a run's tasks, by the rules of the library."""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import User
from django.db.models import F, Window
from django.db.models.functions import RowNumber

from tuning.models import PROMISED_S, Run, RunQuerySet, Task
from tuning.reads.library import PromisedDict, promised, tvm


class BestKnownDict(PromisedDict):
    """Another run's best measurement of the same workload for the same target; `machine` tuned it, null if that isn't recorded."""

    machine: str | None


def any_alike(run: Run, user: User | None) -> bool:
    """Whether the user sees another run for the same target that has measured anything, of the same tasks or not."""
    others = Run.objects.seen_by(user).filter(target_fingerprint=run.target_fingerprint, tasks_measured__gt=0)
    return not run.synthetic and others.filter(synthetic=False).exclude(pk=run.pk).exists()


def best_known(run: Run, user: User | None) -> dict[str, BestKnownDict]:
    """By workload, the best of the other runs that the user sees. Synthetic runs measured nothing: they neither give nor get one.

    Runs that were imported or streamed don't give one, since this site hasn't measured them.
    Latencies of weights that were in the caches don't count beside those of cold ones, nor the other way round.
    """
    if run.synthetic:
        return {}
    others = Run.objects.seen_by(user).filter(target_fingerprint=run.target_fingerprint, synthetic=False)
    others = others.filter(origin=Run.Origin.LAUNCHED).exclude(pk=run.pk).measured_like(run).order_by()
    wanted = set(run.tasks.values_list("workload_hash", flat=True))
    found = _fastest(wanted, others.filter(**{"versions__apache-tvm": tvm() or ""}))
    found |= _fastest(wanted - found.keys(), others)
    return {shash: {**promised(task), "machine": task.run.machine_name or None} for shash, task in found.items()}


def _fastest(hashes: Collection[str], runs: RunQuerySet) -> dict[str, Task]:
    """By workload, the fastest task of these runs, as `TaskQuerySet.best_known` tells it.

    What these have in common is left out of the ranking: rows of runs are long, and a network may have been tuned thousands of times.
    """
    place = Window(RowNumber(), partition_by=F("workload_hash"), order_by=[PROMISED_S, F("pk")])
    alike = Task.objects.measured().filter(workload_hash__in=hashes, run__in=runs)
    first = alike.annotate(place=place).filter(place=1).values("pk")
    best = Task.objects.filter(pk__in=first).select_related("run__network", "run__machine").defer("tensorir", "args")
    return {task.workload_hash: task for task in best}
