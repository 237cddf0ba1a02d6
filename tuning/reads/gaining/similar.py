"""Which workloads of earlier runs are similar to a run's tasks: the same operators in other shapes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tuning.engines.wire.protocol import AnyTaskInfo
from tuning.likeness import Shapes, distance, operators
from tuning.models import Run, Task, fingerprint
from tuning.reads.library import tvm

NEAREST = 8
"""Similar workloads of each task. The schedules of some don't suit its design space."""
LOOKED_AT = 5000
"""Tasks of earlier runs, the newest ones."""


class _Known(NamedTuple):
    workload_hash: str
    shapes: Shapes


def similar_workloads(run: Run, tasks: Iterable[AnyTaskInfo]) -> dict[int, list[str]]:
    """For each of these tasks of the run, by index, the hashes of the most similar workloads with records, the most similar first.

    In its project, for exactly its target, measured here by the installed TVM. A task whose own workload has been measured is left out.
    """
    known = _known(run)
    measured = {one.workload_hash for each in known.values() for one in each}
    found = {}
    for task in tasks:
        if task.workload_hash not in measured and (alike := known.get(operators(task.name))):
            shapes = [(tuple(arg.shape), arg.dtype) for arg in task.args]
            if few := _nearest(shapes, alike):
                found[task.index] = few
    return found


def _nearest(shapes: Shapes, alike: Sequence[_Known]) -> list[str]:
    far = {one.workload_hash: distance(shapes, one.shapes) for one in alike}
    near = sorted((away, shash) for shash, away in far.items() if away < math.inf)
    return [shash for _, shash in near[:NEAREST]]


def _known(run: Run) -> dict[str, list[_Known]]:
    """By the names of their operators, the workloads that were measured."""
    tasks = (
        Task.objects.kept()
        .measured()
        .exclude(run=run)
        .filter(
            run__project=run.project_id,
            run__target_fingerprint=fingerprint(run.target),
            run__engine=run.engine,
            run__synthetic=False,
            run__origin=Run.Origin.LAUNCHED,
            **{"run__versions__apache-tvm": tvm() or ""},
        )
    )
    found: dict[str, list[_Known]] = defaultdict(list)
    seen: set[str] = set()
    for shash, name, args in tasks.order_by("-pk").values_list("workload_hash", "name", "args")[:LOOKED_AT]:
        if shash not in seen:
            seen.add(shash)
            found[operators(name)].append(_Known(shash, _shapes(args)))
    return found


def _shapes(args: Iterable[dict[str, Any]]) -> Shapes:
    return [(tuple(arg["shape"]), arg["dtype"]) for arg in args]
