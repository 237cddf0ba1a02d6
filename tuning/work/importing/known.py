"""What the site knows of an imported log's tasks that the log doesn't say: names, FLOP, weights, and the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from django.db.models import Q

from tuning.logs import neutral
from tuning.models import ExtractedTask, Network, Project, Task


def named(tasks: Sequence[neutral.Task], project: Project, network: Network | None) -> list[neutral.Task]:
    """The tasks; those without a name or FLOP have those of the same workload in the network, the project, or any built-in network."""
    lacking = {task.workload_hash for task in tasks if task.name is None or task.flop is None}
    seen = Q(extraction__network__project=project) | Q(extraction__network__project=None)
    ours = Q(run__project=project) if network is None else Q(run__project=project) | Q(run__network=network)
    tuned = Task.objects.kept().filter(ours, run__origin="launched", workload_hash__in=lacking)
    extracted = ExtractedTask.objects.filter(seen, workload_hash__in=lacking)
    rows = [row for found in (extracted, tuned) for row in found.values_list("workload_hash", "name", "flop")]
    known = {shash: (name, flop) for shash, name, flop in rows}
    return [_filled(task, *known.get(task.workload_hash, (None, None))) for task in tasks]


def _filled(task: neutral.Task, name: str | None, flop: float | None) -> neutral.Task:
    given = task.flop is not None
    return msgspec.structs.replace(task, name=task.name or name, flop=task.flop if given else flop)


def network_called(name: str, project: Project, tasks: Sequence[neutral.Task]) -> Network | None:
    """The project's network of this name, or the built-in one that has these tasks or whose tasks are all among them.

    Otherwise one that is known by name only.
    """
    if not name:
        return None
    if own := project.networks.filter(name=name).exclude(kind=Network.Kind.NAMED).first():
        return own
    hashes = {task.workload_hash for task in tasks}
    for network in Network.objects.filter(project=None, name=name).order_by("pk"):
        if any(hashes <= known or known <= hashes for known in _task_sets(network)):
            return network
    return Network.objects.called(name, project)


def weights_in(network: Network | None) -> Mapping[str, int]:
    """How often tasks occur in the network, by workload hash, as far as it was extracted here."""
    if network is None or network.kind == Network.Kind.NAMED:
        return {}
    rows = ExtractedTask.objects.filter(extraction__network=network).values_list("workload_hash", "weight")
    return {**dict(_launched(network, "workload_hash", "weight")), **dict(rows)}


def _task_sets(network: Network) -> Iterator[set[str]]:
    """The workload hashes that the network is known to have: for each target it was extracted for, and of all its runs."""
    for extraction in network.extractions.all():
        if hashes := set(extraction.tasks.values_list("workload_hash", flat=True)):
            yield hashes
    if tuned := {shash for (shash,) in _launched(network, "workload_hash")}:
        yield tuned


def _launched(network: Network, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Columns of the tasks of its runs that were launched here."""
    yield from Task.objects.filter(run__network=network, run__origin="launched").values_list(*columns).distinct()
