"""The tuning library: the best record of each workload on each target, over all runs that aren't deleted.

Short measurements don't count: they are never a task's best, and their records aren't kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from django.contrib.auth.models import User
from django.db.models import Case, Count, F, FloatField, Max, Q, QuerySet, Sum, When
from typing_extensions import TypedDict

from tuning.engines.wire.versions import installed
from tuning.models import (
    PROMISED_S,
    Network,
    Provenance,
    Record,
    Run,
    Task,
    TaskQuerySet,
    fingerprint,
    provenance,
    seen_by,
)


class KnownRecord(NamedTuple):
    """A run's record of a workload."""

    record: int
    workload_hash: str
    latency_s: float
    """What it promises: the confirmed one, if that is known."""
    run: int
    task: int
    """The task's index in the run."""
    trial: int
    tvm: str | None
    """The version of apache-tvm that measured it, if recorded."""
    text: str
    is_imported: bool
    """Whether its latency is what a log or a script claims."""


def known_records(  # noqa: PLR0913 - what distinguishes records
    hashes: Iterable[str],
    target: dict[str, Any],
    project: int,
    *,
    most: int = 1,
    but: Run | None = None,
    of: Run | None = None,
    by: str | None = None,
    imported: bool = False,
) -> dict[str, list[KnownRecord]]:
    """The best `most` records of each workload for exactly this target, over the project's runs except `but` and synthetic ones, or of one run.

    The best comes first. Records of the TVM version `by`, which is the installed one unless it is given, come before those of other
    versions, which may no longer apply. `imported` asks for records that were imported or streamed instead of those that this site measured.
    Those that can't be used are left out.
    """
    found = Record.objects.filter(
        task__workload_hash__in=set(hashes),
        task__run__project=project,
        task__run__target_fingerprint=fingerprint(target),
        task__run__synthetic=False,
        task__run__deleted_at__isnull=True,
    )
    if but is not None:
        found = found.exclude(task__run=but)
    if of is not None:
        found = found.filter(task__run=of)
    elif imported:
        found = found.exclude(task__run__origin=Run.Origin.LAUNCHED)
    else:
        found = found.filter(task__run__origin=Run.Origin.LAUNCHED)
    keys: dict[str, list[int]] = defaultdict(list)
    ranked = found.best_first(*([] if imported else [provenance("task__run", by or tvm())]))
    for key, shash in ranked.values_list("pk", "task__workload_hash"):
        keys[shash].append(key)
    return _usable(keys, most)


def _usable(keys: dict[str, list[int]], most: int) -> dict[str, list[KnownRecord]]:
    """The first `most` records of each workload that can be used."""
    usable: dict[str, list[KnownRecord]] = defaultdict(list)
    while wanted := {shash: few[: most - len(usable.get(shash, ()))] for shash, few in keys.items() if few}:
        texts = _whole([key for few in wanted.values() for key in few])
        for shash, few in wanted.items():
            usable[shash] += [texts[key] for key in few if key in texts]
            keys[shash] = [] if len(usable[shash]) >= most else keys[shash][len(few) :]
    return {shash: few for shash, few in usable.items() if few}


def is_known(run: Run, by: str | None = None, *, imported: bool = False) -> bool:
    """Whether any run of the project has a record, made by that TVM version, of one of this run's workloads for its target.

    Without `by`, made by the installed TVM. Imported records count only if `imported`.
    """
    return _usable_records(run, by, imported=imported).exists()


def workloads_with_records(run: Run, by: str | None = None) -> set[str]:
    """The hashes of this run's workloads of which such a record is known."""
    return set(_usable_records(run, by).values_list("task__workload_hash", flat=True).distinct())


def _usable_records(run: Run, by: str | None, *, imported: bool = False) -> QuerySet[Record]:
    hashes = run.tasks.values("workload_hash")
    found = Record.objects.filter(
        task__workload_hash__in=hashes,
        task__run__project=run.project_id,
        task__run__target_fingerprint=fingerprint(run.target),
        task__run__deleted_at__isnull=True,
        task__run__synthetic=False,
        **{"task__run__versions__apache-tvm": by or tvm() or ""},
    )
    return found if imported else found.filter(task__run__origin=Run.Origin.LAUNCHED)


def tvm() -> str | None:
    """The version of the installed apache-tvm."""
    return installed("apache-tvm")


def _whole(keys: list[int]) -> dict[int, KnownRecord]:
    """Those of the records that can be used, with their long texts, which are read only for these."""
    rows = Record.objects.filter(pk__in=keys).select_related("task__run").defer("task__tensorir", "task__args")
    return {row.pk: _known(row, row.task, row.task.run) for row in rows if row.trouble is None}


def _known(record: Record, task: Task, run: Run) -> KnownRecord:
    return KnownRecord(
        record.pk,
        task.workload_hash,
        record.promised_s,
        run.pk,
        task.index,
        record.trial,
        run.versions.get("apache-tvm"),
        record.text,
        not run.is_ours,
    )


LibraryOrder = Literal["name", "-name", "latency", "-latency", "gflops", "-gflops", "flop", "-flop", "run", "-run"]
SPEED = Case(When(flop__gt=0, then=F("flop") / PROMISED_S), output_field=FloatField())
BY: dict[str, Any] = {
    "name": F("name"),
    "latency": PROMISED_S,
    "gflops": SPEED,
    "flop": F("flop"),
    "run": F("run"),
}
assert {order.lstrip("-") for order in get_args(LibraryOrder)} == BY.keys()
RUNS = 50
"""Most measurements that are listed of a workload on a target."""


class PromisedDict(TypedDict):
    """The latency in seconds that a run promises for a task, and where it comes from; `tvm` is the version of apache-tvm."""

    run: int
    run_name: str
    network: str | None
    task: int
    trial: int
    latency_s: float
    """The confirmed one if the task is confirmed, else a single measurement."""
    tvm: str | None


class MeasuredDict(PromisedDict):
    """A run's best measurement of a workload. `doubt` is `none`, `other_tvm`, `imported` or `synthetic`."""

    trials: int
    confirmed: bool
    gflops: float | None
    simulator: str | None
    """As a run has it."""
    doubt: str
    created_at: str
    """When the run was launched."""


class SpreadDict(TypedDict):
    """The runs with the same `doubt` that measured it, their trials, and the slowest of their best latencies in seconds."""

    runs: int
    trials: int
    slowest_latency_s: float


class EntryDict(SpreadDict):
    """A workload on a target with its best measurement, and how other runs compare."""

    workload_hash: str
    name: str
    flop: float | None
    args: list[dict[str, Any]]
    networks: list[str]
    target: Any
    target_fingerprint: str
    best: MeasuredDict


class TargetDict(TypedDict):
    """The measurements of a workload on a target, best first; `more` is how many aren't listed."""

    target: Any
    target_fingerprint: str
    measured: list[MeasuredDict]
    more: int


class WorkloadDict(TypedDict):
    """A workload with its unscheduled function as TVMScript, and its measurements on each target."""

    workload_hash: str
    name: str
    flop: float | None
    args: list[dict[str, Any]]
    tensorir: str
    networks: list[str]
    targets: list[TargetDict]


@dataclass(frozen=True)
class LibraryFilter:
    """What the user sees of the library. Each word of `q` must be in the name of the task or its network, or begin the workload's hash."""

    user: User | None
    """None: the site itself, which sees everything."""
    q: str = ""
    network: str = ""
    """The network's name."""
    target: str = ""
    """The target's fingerprint."""
    order: LibraryOrder = "name"
    imported: bool = False
    """Whether records count that were imported or streamed, whose latencies this site hasn't measured."""

    def tasks(self) -> TaskQuerySet:
        """All the user's runs' tasks with a matching workload; the best is chosen from these."""
        kept = Task.objects.kept().seen_by(self.user)
        if not self.imported:
            kept = kept.filter(run__origin=Run.Origin.LAUNCHED)
        tasks = kept.filter(run__target_fingerprint=self.target) if self.target else kept
        like = [
            Q(name__icontains=word) | Q(run__network__name__icontains=word) | Q(workload_hash__startswith=word)
            for word in self.q.split()
        ]
        if self.network:
            like.append(Q(run__network__name=self.network))
        return tasks.filter(workload_hash__in=kept.filter(*like).values("workload_hash")) if like else tasks

    def count(self) -> int:
        return self.tasks().measured().values("workload_hash", "run__target_fingerprint").distinct().count()

    def entries(self, offset: int, limit: int) -> list[EntryDict]:
        """A page of entries, sorted."""
        by = BY[self.order.lstrip("-")]
        order = by.desc(nulls_last=True) if self.order.startswith("-") else by.asc(nulls_last=True)
        best = self.tasks().best_known(tvm()).annotate(doubt=provenance("run", tvm())).order_by(order, "pk")
        return _entries(self.user, dict(best.values_list("pk", "doubt")[offset : offset + limit]))


def targets(user: User | None) -> list[tuple[str, Any]]:
    """Fingerprint and target of all targets with measurements in the user's projects."""
    latest = (
        Run.objects.seen_by(user).filter(tasks_measured__gt=0).values("target_fingerprint").annotate(latest=Max("pk"))
    )
    runs = Run.objects.filter(pk__in=latest.values("latest")).order_by("-pk")
    return list(runs.values_list("target_fingerprint", "target"))


def networks(user: User | None) -> list[str]:
    """Names of all networks with measurements in the user's projects."""
    seen = seen_by(user, "runs__project")
    measured = Network.objects.filter(seen, runs__tasks_measured__gt=0, runs__deleted_at__isnull=True)
    return list(measured.values_list("name", flat=True).distinct().order_by("name"))


def workload(user: User | None, shash: str) -> WorkloadDict | None:
    """A workload with all its measurements in the user's projects; None if no run there has it."""
    tasks = Task.objects.kept().seen_by(user).filter(workload_hash=shash)
    first = tasks.order_by("pk").first()
    if first is None:
        return None
    ranked = tasks.measured().annotate(doubt=provenance("run", tvm())).order_by("doubt", PROMISED_S, "pk")
    provenances = dict(ranked.values_list("pk", "doubt"))
    rows = Task.objects.select_related("run__network").defer("tensorir", "args").in_bulk(provenances)
    by_target: dict[str, list[Task]] = defaultdict(list)
    for key in provenances:
        by_target[rows[key].run.target_fingerprint].append(rows[key])
    return {
        "workload_hash": shash,
        "name": first.name,
        "flop": first.flop,
        "args": first.args,
        "tensorir": first.tensorir,
        "networks": _networks_of(user, [shash])[shash],
        "targets": [
            {
                "target": measured[0].run.target,
                "target_fingerprint": key,
                "measured": [_measured(task, provenances[task.pk]) for task in measured[:RUNS]],
                "more": len(measured[RUNS:]),
            }
            for key, measured in by_target.items()
        ],
    }


def _entries(user: User | None, provenances: dict[int, int]) -> list[EntryDict]:
    """The entries of the tasks with these keys, in this order; the values say where each comes from."""
    rows = Task.objects.select_related("run__network").defer("tensorir").in_bulk(provenances)
    best = [rows[key] for key in provenances]
    hashes = {task.workload_hash for task in best}
    networks, spread = _networks_of(user, hashes), _spread(user, hashes)
    return [
        {
            "workload_hash": task.workload_hash,
            "name": task.name,
            "flop": task.flop,
            "args": task.args,
            "networks": networks[task.workload_hash],
            "target": task.run.target,
            "target_fingerprint": task.run.target_fingerprint,
            "best": _measured(task, provenances[task.pk]),
            **spread[task.workload_hash, task.run.target_fingerprint, provenances[task.pk]],
        }
        for task in best
    ]


def _spread(user: User | None, hashes: Iterable[str]) -> dict[tuple[str, str, int], SpreadDict]:
    kept = Task.objects.kept().seen_by(user)
    alike = kept.filter(workload_hash__in=hashes).measured().annotate(doubt=provenance("run", tvm()))
    figures = alike.values_list("workload_hash", "run__target_fingerprint", "doubt").annotate(
        Count("pk"), Sum("trials"), slowest_s=Max(PROMISED_S)
    )
    return {row[:3]: {"runs": row[3], "trials": row[4], "slowest_latency_s": row[5]} for row in figures}


def _networks_of(user: User | None, hashes: Iterable[str]) -> dict[str, list[str]]:
    having = Task.objects.kept().seen_by(user).filter(workload_hash__in=hashes, run__network__isnull=False)
    found: dict[str, list[str]] = defaultdict(list)
    named = having.order_by("run__network__name").values_list("workload_hash", "run__network__name")
    for shash, network in named.distinct():
        found[shash].append(network)
    return found


def promised(task: Task) -> PromisedDict:
    """What a measured task's run promises."""
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
        "tvm": run.versions.get("apache-tvm"),
    }


def _measured(task: Task, doubted: int) -> MeasuredDict:
    run, best = task.run, promised(task)
    return {
        **best,
        "trials": task.trials,
        "confirmed": task.confirmed_latency_s is not None,
        "gflops": task.gflops_at(best["latency_s"]),
        "simulator": run.simulator,
        "doubt": Provenance(doubted).label,
        "created_at": run.created_at.isoformat(),
    }
