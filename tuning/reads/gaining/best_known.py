"""The best that other runs have reached for a run's tasks, by the rules of the library."""

from __future__ import annotations

from django.contrib.auth.models import User

from tuning.models import Run, Task
from tuning.reads.library import PromisedDict, promised, tvm


class BestKnownDict(PromisedDict):
    """Another run's best measurement of the same workload for the same target; `machine` tuned it, null if that isn't recorded."""

    machine: str | None


def any_alike(run: Run, user: User | None) -> bool:
    """Whether the user sees another run for the same target that has measured anything, of the same tasks or not."""
    others = Run.objects.seen_by(user).filter(target_fingerprint=run.target_fingerprint, tasks_measured__gt=0)
    return not run.synthetic and others.filter(synthetic=False).exclude(pk=run.pk).exists()


def best_known(run: Run, user: User | None) -> dict[str, BestKnownDict]:
    """By workload, the best of the other runs that the user sees. Synthetic runs measured nothing: they neither give nor get one."""
    if run.synthetic:
        return {}
    others = Task.objects.kept().seen_by(user).exclude(run=run).filter(run__synthetic=False)
    alike = others.filter(
        run__target_fingerprint=run.target_fingerprint, workload_hash__in=run.tasks.values("workload_hash")
    )
    best = alike.best_known(tvm()).select_related("run__network", "run__machine").defer("tensorir", "args")
    return {task.workload_hash: {**promised(task), "machine": task.run.machine_name or None} for task in best}
