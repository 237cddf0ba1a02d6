"""Every machine: what it is, what it does and since when, what waits for it, and how it was used in the last hour."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Union

from django.contrib.auth.models import User
from django.db.models import Count, DurationField, ExpressionWrapper, F, Max, Min, Sum
from django.db.models.functions import Now
from typing_extensions import TypedDict

from tuning.host.machine import identity
from tuning.models import Compilation, Fleet, Kind, Machine, PoolMember, Run, SideBySide, Tally
from tuning.models.fleet import SHARED
from tuning.reads.device_status import ELSEWHERE

from .rooflines import RooflineDict, rooflines

HOUR = timedelta(hours=1)
Working = Union[Run, Compilation, SideBySide, PoolMember]
"""What keeps a machine busy."""


class WorkDict(TypedDict):
    """A run that is tuned, a compilation whose library is proven, or runs that are measured side by side.

    Without id and name for whoever isn't in its project.
    """

    kind: str
    """`run`, `compilation` or `side_by_side`."""
    id: int | None
    name: str
    """Of a compilation, its run's; of a side by side, the numbers of its runs with commas."""
    device: str
    status: str
    started_at: str | None


class QueueDict(TypedDict):
    """The runs that the machine may take; those for any of several machines count for each. `oldest_at`: when the first was queued."""

    length: int
    oldest_at: str | None


class UseDict(TypedDict):
    """What was counted in the last 60 minutes: trials, those of them that failed, and the seconds in which runs were tuned."""

    trials: float
    failed: float
    tuned_s: float


class MachineDict(TypedDict):
    """A machine of the site. Times are of the database's clock, memory is in bytes.

    `cpu`, `cores` and `target` are None until the machine was asked. `load` has `average` (of runnable processes over 1, 5 and
    15 minutes), `memory_free`, `disk_free` and `disk_total` in bytes, `cpus`, the processors that the kernel schedules on, and of these
    `ours_cores` that Tuneboard's processes used lately and `others_cores` that other processes did, None before the second
    heartbeat; it is empty until the first. `here`: the site itself runs there.
    """

    id: int
    name: str
    here: bool
    state: str
    since: str | None
    """When the state began, as far as that is known."""
    trouble: str
    draining: bool
    cpu: str | None
    cores: int | None
    memory: int
    devices: list[str]
    target: dict[str, Any] | None
    versions: dict[str, str]
    load: dict[str, Any]
    disturbed: bool
    """Something is measured there while other processes use more than a quarter of its processors: it is noisy."""
    joined_at: str
    heartbeat_at: str
    work: list[WorkDict]
    queue: QueueDict
    last_hour: UseDict
    rooflines: list[RooflineDict]
    """What it does at best, by target; empty if that wasn't measured."""


class MachinesDict(TypedDict):
    machines: list[MachineDict]


class _Seen(NamedTuple):
    """What all machines do, read at once."""

    work: Mapping[int, list[WorkDict]]
    """By the machine's key."""
    began: Mapping[int, datetime]
    """When the first of a machine's work began."""
    ended: Mapping[int, datetime]
    """When a machine's last run ended."""
    used: Mapping[str, UseDict]
    queues: Mapping[int, list[tuple[int, datetime]]]
    """By the machine's key: of each kind of runs that it may take, how many wait, and since when the oldest has."""
    rooflines: Mapping[int, list[RooflineDict]]


def machines(user: User | None) -> MachinesDict:
    """All machines by name, as far as it is the user's to know what they do."""
    seen, key = _seen(user), identity.key()
    return {"machines": [_machine(row, seen, here=row.key == key) for row in _rows(seen.work)]}


def _rows(busy: Container[int]) -> list[Machine]:
    """All machines, which know their state without another query. `busy`: keys of those where something is measured."""
    rows = list(Machine.objects.all())
    alive = set(Machine.objects.alive().values_list("pk", flat=True))
    for row in rows:
        row.heard_of, row.busy = row.pk in alive, row.pk in busy
    return rows


def states() -> dict[str, int]:
    """How many machines are in each state."""
    proofs = Compilation.objects.on_device().filter(status__in=Compilation.LIVE, machine__isnull=False)
    runs = Run.objects.live().filter(machine__isnull=False)
    beside = SideBySide.objects.live().filter(machine__isnull=False)
    busy = {key for rows in (runs, proofs, beside) for key in rows.order_by().values_list("machine", flat=True)}
    counts = Counter(row.state for row in _rows(busy))
    return {state: counts[state] for state in Machine.State.values}


def silences() -> dict[str, float]:
    """Seconds since each machine was heard of, by the database's clock."""
    silent = ExpressionWrapper(Now() - F("heartbeat_at"), output_field=DurationField())
    rows = Machine.objects.annotate(silent=silent).values_list("name", "silent")
    return {name: max(0.0, silence.total_seconds()) for name, silence in rows}


def _machine(row: Machine, seen: _Seen, *, here: bool) -> MachineDict:
    waiting = seen.queues.get(row.pk, [])
    oldest = min((since for _, since in waiting), default=None)
    since = _since(row, seen)
    return {
        "id": row.pk,
        "name": row.name,
        "here": here,
        "state": row.state,
        "since": since.isoformat() if since else None,
        "trouble": row.trouble,
        "draining": row.is_draining,
        "cpu": row.cpu or None,
        "cores": row.cores or None,
        "memory": row.memory,
        "devices": row.devices,
        "target": row.target,
        "versions": row.versions,
        "load": row.load,
        "disturbed": row.is_disturbed,
        "joined_at": row.joined_at.isoformat(),
        "heartbeat_at": row.heartbeat_at.isoformat(),
        "work": seen.work.get(row.pk, []),
        "queue": {
            "length": sum(count for count, _ in waiting),
            "oldest_at": oldest.isoformat() if oldest else None,
        },
        "last_hour": seen.used.get(row.name, {"trials": 0.0, "failed": 0.0, "tuned_s": 0.0}),
        "rooflines": seen.rooflines.get(row.pk, []),
    }


def _since(row: Machine, seen: _Seen) -> datetime | None:
    """Nobody records when versions stopped fitting."""
    state = row.state
    if state == Machine.State.LOST:
        return row.heartbeat_at
    if state in (Machine.State.DRAINING, Machine.State.DRAINED):
        return row.draining_at
    if state == Machine.State.TUNING:
        return seen.began.get(row.pk)
    return max(row.joined_at, seen.ended.get(row.pk, row.joined_at)) if state == Machine.State.IDLE else None


def _seen(user: User | None) -> _Seen:
    runs = list(Run.objects.live().filter(machine__isnull=False).order_by("started_at"))
    proving = Compilation.objects.on_device().filter(status__in=Compilation.LIVE, machine__isnull=False)
    proofs = list(proving.select_related("run").order_by("started_at"))
    members = list(PoolMember.objects.active().exclude(machine=F("run__machine")).select_related("run"))
    beside = list(SideBySide.objects.live().filter(machine__isnull=False).order_by("started_at"))
    keys = {run.pk for run in runs} | {proof.run_id for proof in proofs} | {member.run_id for member in members}
    keys |= {key for one in beside for key in one.run_keys}
    visible = set(Run.objects.seen_by(user).filter(pk__in=keys).values_list("pk", flat=True))
    work: dict[int, list[WorkDict]] = defaultdict(list)
    began: dict[int, datetime] = {}
    rows: list[Working] = [*runs, *proofs, *beside, *members]
    for one in rows:
        assert one.machine_id is not None
        work[one.machine_id].append(_work(one, visible))
        if since := _began(one):
            began[one.machine_id] = min(since, began.get(one.machine_id, since))
    ended = Run.objects.filter(machine__isnull=False, finished_at__gte=Now() - timedelta(days=1))
    last = dict(ended.order_by().values_list("machine").annotate(Max("finished_at")))
    return _Seen(work, began, last, _used(), _queues(), rooflines(user))


def _queues() -> dict[int, list[tuple[int, datetime]]]:
    waiting = Run.objects.filter(status=Run.Status.QUEUED).exclude(device="").exclude(device__startswith=SHARED)
    counted = waiting.order_by().values_list(*Kind._fields).annotate(Count("pk"), Min("queued_at"))
    kinds = {Kind(*row[:-2]): (row[-2], row[-1]) for row in counted}
    fleet = Fleet(kinds)
    found: dict[int, list[tuple[int, datetime]]] = defaultdict(list)
    for kind, waits in kinds.items():
        for key in fleet.candidates(kind):
            found[key].append(waits)
    return found


def _work(one: Working, visible: set[int]) -> WorkDict:
    if isinstance(one, SideBySide):
        return _beside(one, seen=visible.issuperset(one.run_keys))
    run = one if isinstance(one, Run) else one.run
    what = one if isinstance(one, Compilation) else run
    seen, since = run.pk in visible, _began(one)
    return {
        "kind": "run" if what is run else "compilation",
        "id": what.pk if seen else None,
        "name": run.name if seen else ELSEWHERE,
        "device": one.device,
        "status": what.status,
        "started_at": since.isoformat() if since else None,
    }


def _beside(one: SideBySide, *, seen: bool) -> WorkDict:
    return {
        "kind": "side_by_side",
        "id": one.pk if seen else None,
        "name": one.key if seen else ELSEWHERE,
        "device": one.device,
        "status": one.status,
        "started_at": one.started_at.isoformat() if one.started_at else None,
    }


def _began(one: Working) -> datetime | None:
    return one.joined_at if isinstance(one, PoolMember) else one.started_at


def _used() -> dict[str, UseDict]:
    """By the machine's name."""
    counted = Tally.objects.since(Now() - HOUR).exclude(machine="").order_by()
    rows = counted.values_list("machine", "what").annotate(Sum("amount"))
    found: dict[str, UseDict] = {}
    for machine, what, amount in rows:
        use = found.setdefault(machine, {"trials": 0.0, "failed": 0.0, "tuned_s": 0.0})
        if what == Tally.What.TRIALS:
            use["trials"] += amount
        elif what == Tally.What.TUNED_S:
            use["tuned_s"] += amount
        elif Tally(what=what).error_kind:
            use["failed"] += amount
    return found
