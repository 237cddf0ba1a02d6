"""The best that other runs have reached for a run's tasks, by the rules of the library."""

from __future__ import annotations

from django.contrib.auth.models import User
from typing_extensions import TypedDict

from tuning.models import Run, Task
from tuning.reads.library import tvm


class BestKnownDict(TypedDict):
    """Another run's best measurement of the same workload for the same target.

    `machine` is the one that tuned it, null if that isn't recorded; `tvm` the version of apache-tvm.
    """

    run: int
    run_name: str
    network: str | None
    task: int
    trial: int
    latency_s: float
    machine: str | None
    tvm: str | None


def best_known(run: Run, user: User | None) -> dict[str, BestKnownDict]:
    """By workload, the best of the other runs that the user sees. Synthetic runs measured nothing: they neither give nor get one."""
    if run.synthetic:
        return {}
    others = Task.objects.kept().seen_by(user).exclude(run=run).filter(run__synthetic=False)
    alike = others.filter(
        run__target_fingerprint=run.target_fingerprint, workload_hash__in=run.tasks.values("workload_hash")
    )
    best = alike.best_known(tvm()).select_related("run__network", "run__machine").defer("tensorir", "args")
    return {task.workload_hash: _shown(task) for task in best}


def _shown(task: Task) -> BestKnownDict:
    run = task.run
    trial, latency_s = task.promised
    assert trial is not None
    assert latency_s is not None
    return {
        "run": run.pk,
        "run_name": run.name,
        "network": run.network_name,
        "task": task.index,
        "trial": trial,
        "latency_s": latency_s,
        "machine": run.machine_name or None,
        "tvm": run.versions.get("apache-tvm"),
    }
