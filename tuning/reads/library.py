"""The tuning library: the best that is known of a workload for a target, over all runs, archived ones too but none that was deleted.

Short measurements take no part: no task's best is one, and no record of one is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from django.db.models import Case, Count, F, FloatField, Max, Q, Sum, When
from typing_extensions import TypedDict

from tuning.engines.wire.versions import installed
from tuning.models import Network, Provenance, Record, Run, Task, TaskQuerySet, fingerprint, provenance


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
        task__run__deleted_at__isnull=True,
    )
    if but is not None:
        found = found.exclude(task__run=but)
    keys: dict[str, list[int]] = defaultdict(list)
    ranked = found.order_by(provenance("task__run", tvm()), "latency_s", "pk")
    for key, shash in ranked.values_list("pk", "task__workload_hash"):
        if len(keys[shash]) < most:
            keys[shash].append(key)
    texts = _whole([key for few in keys.values() for key in few])
    return {shash: [texts[key] for key in few] for shash, few in keys.items()}


def is_known(run: Run) -> bool:
    """Whether any run has a record of one of this run's workloads for its target, by the installed TVM."""
    hashes = run.tasks.values("workload_hash")
    found = Record.objects.filter(
        task__workload_hash__in=hashes,
        task__run__target_fingerprint=fingerprint(run.target),
        task__run__deleted_at__isnull=True,
    ).annotate(doubt=provenance("task__run", tvm()))
    return found.filter(doubt=Provenance.INSTALLED_TVM).exists()


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


LibraryOrder = Literal["name", "-name", "latency", "-latency", "gflops", "-gflops", "flop", "-flop", "run", "-run"]
SPEED = Case(When(flop__gt=0, then=F("flop") / F("best_latency_s")), output_field=FloatField())
BY: dict[str, Any] = {
    "name": F("name"),
    "latency": F("best_latency_s"),
    "gflops": SPEED,
    "flop": F("flop"),
    "run": F("run"),
}
assert {order.lstrip("-") for order in get_args(LibraryOrder)} == BY.keys()
RUNS = 50
"""Of a workload's measurements on one target, so many are listed; the best first."""


class MeasuredDict(TypedDict):
    """The best that one run measured of a workload; latency in seconds. `doubt` is `none`, `other_tvm` or `synthetic`."""

    run: int
    run_name: str
    network: str
    task: int
    trial: int
    trials: int
    latency_s: float
    gflops: float | None
    tvm: str | None
    doubt: str
    created_at: str
    """When the run was launched."""


class SpreadDict(TypedDict):
    """How many runs that are equally doubtful measured it, in how many trials, and the slowest of their bests in seconds."""

    runs: int
    trials: int
    slowest_latency_s: float


class EntryDict(SpreadDict):
    """A workload on a target with the best that is known, and how that compares to other runs."""

    workload_hash: str
    name: str
    flop: float
    args: list[dict[str, Any]]
    networks: list[str]
    target: Any
    target_fingerprint: str
    best: MeasuredDict


class TargetDict(TypedDict):
    """What runs measured of a workload on a target, the best first; `more` are not listed."""

    target: Any
    target_fingerprint: str
    measured: list[MeasuredDict]
    more: int


class WorkloadDict(TypedDict):
    """A workload with its function before any schedule, as TVMScript, and what was measured of it on each target."""

    workload_hash: str
    name: str
    flop: float
    args: list[dict[str, Any]]
    tensorir: str
    networks: list[str]
    targets: list[TargetDict]


@dataclass(frozen=True)
class LibraryFilter:
    """Which entries: all words of `q` in a task's name or its network's, or the beginning of its workload's hash."""

    q: str = ""
    network: str = ""
    """Its name."""
    target: str = ""
    """Its fingerprint."""
    order: LibraryOrder = "name"

    def tasks(self) -> TaskQuerySet:
        """Those that the best are chosen of: all runs' of every workload that is wanted."""
        kept = Task.objects.kept()
        tasks = kept.filter(run__target_fingerprint=self.target) if self.target else kept
        like = [
            Q(name__icontains=word) | Q(run__network__name__icontains=word) | Q(workload_hash__startswith=word)
            for word in self.q.split()
        ]
        if self.network:
            like.append(Q(run__network__name=self.network))
        return tasks.filter(workload_hash__in=kept.filter(*like).values("workload_hash")) if like else tasks

    def count(self) -> int:
        """How many entries there are."""
        return self.tasks().measured().values("workload_hash", "run__target_fingerprint").distinct().count()

    def entries(self, offset: int, limit: int) -> list[EntryDict]:
        """Some of them, in their order."""
        by = BY[self.order.lstrip("-")]
        order = by.desc(nulls_last=True) if self.order.startswith("-") else by.asc(nulls_last=True)
        best = self.tasks().best_known(tvm()).annotate(doubt=provenance("run", tvm())).order_by(order, "pk")
        return _entries(dict(best.values_list("pk", "doubt")[offset : offset + limit]))


def targets() -> list[tuple[str, Any]]:
    """Fingerprint and target of all that was measured for."""
    latest = Run.objects.filter(tasks_measured__gt=0).values("target_fingerprint").annotate(latest=Max("pk"))
    runs = Run.objects.filter(pk__in=latest.values("latest")).order_by("-pk")
    return list(runs.values_list("target_fingerprint", "target"))


def networks() -> list[str]:
    """Names of all networks of which something was measured."""
    measured = Network.objects.filter(runs__tasks_measured__gt=0, runs__deleted_at__isnull=True)
    return list(measured.values_list("name", flat=True).distinct().order_by("name"))


def workload(shash: str) -> WorkloadDict | None:
    """All that is known of a workload; None when no run has it."""
    tasks = Task.objects.kept().filter(workload_hash=shash)
    first = tasks.order_by("pk").first()
    if first is None:
        return None
    ranked = tasks.measured().annotate(doubt=provenance("run", tvm())).order_by("doubt", "best_latency_s", "pk")
    doubts = dict(ranked.values_list("pk", "doubt"))
    rows = Task.objects.select_related("run__network").defer("tensorir", "args").in_bulk(doubts)
    by_target: dict[str, list[Task]] = defaultdict(list)
    for key in doubts:
        by_target[rows[key].run.target_fingerprint].append(rows[key])
    return {
        "workload_hash": shash,
        "name": first.name,
        "flop": first.flop,
        "args": first.args,
        "tensorir": first.tensorir,
        "networks": _networks_of([shash])[shash],
        "targets": [
            {
                "target": those[0].run.target,
                "target_fingerprint": key,
                "measured": [_measured(task, doubts[task.pk]) for task in those[:RUNS]],
                "more": len(those[RUNS:]),
            }
            for key, those in by_target.items()
        ],
    }


def _entries(doubts: dict[int, int]) -> list[EntryDict]:
    """Of the tasks with these keys, in this order; with the doubt about each."""
    rows = Task.objects.select_related("run__network").defer("tensorir").in_bulk(doubts)
    best = [rows[key] for key in doubts]
    hashes = {task.workload_hash for task in best}
    networks, spread = _networks_of(hashes), _spread(hashes)
    return [
        {
            "workload_hash": task.workload_hash,
            "name": task.name,
            "flop": task.flop,
            "args": task.args,
            "networks": networks[task.workload_hash],
            "target": task.run.target,
            "target_fingerprint": task.run.target_fingerprint,
            "best": _measured(task, doubts[task.pk]),
            **spread[task.workload_hash, task.run.target_fingerprint, doubts[task.pk]],
        }
        for task in best
    ]


def _spread(hashes: Iterable[str]) -> dict[tuple[str, str, int], SpreadDict]:
    alike = Task.objects.kept().filter(workload_hash__in=hashes).measured().annotate(doubt=provenance("run", tvm()))
    figures = alike.values_list("workload_hash", "run__target_fingerprint", "doubt").annotate(
        Count("pk"), Sum("trials"), Max("best_latency_s")
    )
    return {row[:3]: {"runs": row[3], "trials": row[4], "slowest_latency_s": row[5]} for row in figures}


def _networks_of(hashes: Iterable[str]) -> dict[str, list[str]]:
    having = Task.objects.kept().filter(workload_hash__in=hashes).order_by("run__network__name")
    found: dict[str, list[str]] = defaultdict(list)
    for shash, network in having.values_list("workload_hash", "run__network__name").distinct():
        found[shash].append(network)
    return found


def _measured(task: Task, doubted: int) -> MeasuredDict:
    run = task.run
    assert task.best_latency_s is not None
    assert task.best_trial is not None
    return {
        "run": run.pk,
        "run_name": run.name,
        "network": run.network.name,
        "task": task.index,
        "trial": task.best_trial,
        "trials": task.trials,
        "latency_s": task.best_latency_s,
        "gflops": task.gflops,
        "tvm": run.versions.get("apache-tvm"),
        "doubt": Provenance(doubted).label,
        "created_at": run.created_at.isoformat(),
    }
