"""The site's state in figures, and what was counted over time. All reads are ranges of indexes, whatever was ever tuned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple, get_args

from django.conf import settings
from django.db.models import Count, Max, Min, QuerySet, Value
from django.db.models.functions import Now
from django.utils import timezone

from tuning.engines.wire.protocol import ErrorKind
from tuning.models import (
    Beat,
    Compilation,
    Delivery,
    Extraction,
    Machine,
    PoolMember,
    Run,
    SideBySide,
    Tally,
    measures_on,
)
from tuning.models.fleet import is_shared

from .machines import listing

KINDS: tuple[str, ...] = get_args(ErrorKind)
"""All kinds of errors that a trial can fail with."""
COMPILE, EXTRACT, WEBHOOK, WATCH = "compile", "extract", "webhook", "watch"
"""The queues that don't belong to a device."""
STEP = timedelta(minutes=10)
"""Between two points of a chart of how a device was used: tuned seconds are counted every few seconds."""
LEAST = timedelta(hours=1)
"""As little time as a chart shows."""


class Queue(NamedTuple):
    """What waits for a device, or under one of the names above. `machine` is the only one that may take it; empty if any that fits may."""

    name: str
    machine: str = ""


class Place(NamedTuple):
    """A device of a machine. `machine` is empty for a tracker's devices, and for what was done before machines were known."""

    machine: str
    device: str


class Waiting(NamedTuple):
    """What waits in a queue, and since when the oldest has; None if nothing waits, or if that isn't recorded."""

    length: int
    since: datetime | None


NOTHING = Waiting(0, None)


class Device(NamedTuple):
    """What a device ever did. `failed` is by kind of error; `lag_s` is the sum over `lags` trials."""

    busy: bool
    trials: float
    failed: Mapping[str, float]
    tuned_s: float
    lag_s: float
    lags: float


class State(NamedTuple):
    """The site now. Runs, compilations and deliveries are counted by status; without deleted runs and what was made of them."""

    runs: dict[str, int]
    compilations: dict[str, int]
    deliveries: dict[str, int]
    queues: dict[Queue, Waiting]
    devices: dict[Place, Device]
    """With those of machines that were forgotten."""
    swept_at: datetime | None
    """None if the sweep was never done."""
    machines: dict[str, int]
    """How many are in each state."""
    silences: dict[str, float]
    """By machine, seconds since it was heard of."""


class Timeline(NamedTuple):
    """What was counted in each minute from `began` on; devices and kinds of errors by name. A minute without any trial has 0."""

    minutes: list[datetime]
    trials: dict[str, list[float]]
    failed: dict[str, list[float]]
    steps: list[datetime]
    tuned: dict[str, list[float]]
    """By device: the share of each `STEP` in which it tuned, from 0 to 1; the mean over all machines that did in this time."""


def state() -> State:
    """Read the state in about fifteen short queries."""
    machines = dict(Machine.objects.values_list("name", "devices"))
    queues = _queues(machines)
    return State(
        runs=_runs(),
        compilations=_by_status(Compilation.objects.kept(), Compilation.Status.values),
        deliveries=_by_status(Delivery.objects.all(), Delivery.Status.values),
        queues=queues,
        devices=_devices(machines, queues),
        swept_at=Beat.objects.filter(name=Beat.SWEEP).values_list("at", flat=True).first(),
        machines=listing.states(),
        silences=listing.silences(),
    )


def timeline(span: timedelta = timedelta(hours=24)) -> Timeline:
    """The counts of this span up to now, or since the first count in it, but of an hour at least. The last minute isn't over."""
    # Minutes are the database's: one that this machine's clock hasn't reached would have no place.
    known = Tally.objects.since(Now() - span).aggregate(first=Min("minute"), now=Max(Now()))
    now = known["now"] or timezone.now()
    began = _floor(min(known["first"] or now, now - LEAST), STEP)
    minutes = [began + timedelta(minutes=index) for index in range(int((now - began) / timedelta(minutes=1)) + 1)]
    steps = minutes[:: int(STEP / timedelta(minutes=1))]
    found = Timeline(minutes, {}, {}, steps, {})
    tuned: dict[Place, list[float]] = {}
    counted = Tally.objects.since(began).filter(minute__lte=now)
    for minute, machine, device, what, amount in counted.values_list("minute", "machine", "device", "what", "amount"):
        place = int((minute - began) / timedelta(minutes=1))
        kind = Tally(what=what).error_kind
        if kind:
            found.failed.setdefault(kind, [0.0] * len(minutes))[place] += amount
        elif what == Tally.What.TRIALS:
            found.trials.setdefault(device, [0.0] * len(minutes))[place] += amount
        elif what == Tally.What.TUNED_S:
            tuned.setdefault(Place(machine, device), [0.0] * len(steps))[int((minute - began) / STEP)] += amount
    lengths_s = [max(1.0, min(STEP, now - start).total_seconds()) for start in steps]  # The last one isn't over.
    found.tuned.update(_shares(tuned, lengths_s))
    return found


def _shares(tuned: Mapping[Place, Sequence[float]], lengths_s: Sequence[float]) -> dict[str, list[float]]:
    """By device: the share of each step, of which these are the lengths, that its machines tuned on average."""
    shares: dict[str, list[list[float]]] = defaultdict(list)
    for place, amounts in tuned.items():
        # A step may get some seconds of the one before.
        shares[place.device].append([min(1.0, amount / s) for amount, s in zip(amounts, lengths_s, strict=True)])
    return {device: [sum(step) / len(step) for step in zip(*shares[device], strict=True)] for device in sorted(shares)}


def _floor(moment: datetime, step: timedelta) -> datetime:
    return moment - timedelta(seconds=moment.timestamp() % step.total_seconds())


def _runs() -> dict[str, int]:
    """All runs minus the deleted ones: each of the two queries has an index that contains its answer, or few rows."""
    found = _by_status(Run.everything.all(), Run.Status.values)
    deleted = _by_status(Run.everything.filter(deleted_at__isnull=False), Run.Status.values)
    return {status: count - deleted[status] for status, count in found.items()}


def _by_status(rows: QuerySet[Any], statuses: list[str]) -> dict[str, int]:
    found = dict(rows.order_by().values_list("status").annotate(count=Count("pk")))
    return {status: found.get(status, 0) for status in statuses}


def _queues(machines: Mapping[str, Sequence[str]]) -> dict[Queue, Waiting]:
    """A queue for each device that is there or waited for, for each machine that can be chosen, and those without a device."""
    unfinished = Compilation.objects.kept().filter(status=Compilation.Status.QUEUED)
    due = Delivery.objects.filter(status=Delivery.Status.WAITING, due_at__lte=Now())
    watched = Run.objects.filter(status=Run.Status.QUEUED, origin=Run.Origin.WATCHED)
    waiting = {Queue(device): NOTHING for device in sorted({*settings.DEVICES, *chain(*machines.values())})}
    if len(machines) > 1:
        waiting |= {Queue(device, name): NOTHING for name, devices in machines.items() for device in devices}
    return {
        **_waiting_for_devices(waiting),
        Queue(COMPILE): _waiting(unfinished.filter(stage=Compilation.Stage.BUILD), "queued_at"),
        # An extraction that is tried again doesn't record since when it waits.
        Queue(EXTRACT): Waiting(Extraction.objects.filter(status=Extraction.Status.QUEUED).count(), None),
        Queue(WEBHOOK): _waiting(due, "due_at"),
        Queue(WATCH): _waiting(watched, "queued_at"),
    }


def _waiting_for_devices(found: dict[Queue, Waiting]) -> dict[Queue, Waiting]:
    runs = Run.objects.filter(status=Run.Status.QUEUED).exclude(device="").order_by()
    proofs = Compilation.objects.on_device().filter(status=Compilation.Status.QUEUED).order_by()
    beside = SideBySide.objects.kept().filter(status=SideBySide.Status.QUEUED).order_by()
    rows: Sequence[QuerySet[Any]] = (
        runs.values_list("device", "chosen_machine__name"),
        proofs.annotate(on=measures_on("run__"), named=Value("")).values_list("on", "named"),
        beside.annotate(named=Value("")).values_list("device", "named"),
    )
    for each in rows:
        for device, machine, count, since in each.annotate(Count("pk"), Min("queued_at")):
            queue = Queue(device, machine or "")
            found[queue] = merged([found.get(queue, NOTHING), Waiting(count, since)])
    return found


def _waiting(rows: QuerySet[Any], since: str) -> Waiting:
    found = rows.order_by().aggregate(count=Count("pk"), since=Min(since))
    return Waiting(found["count"], found["since"])


def merged(waiting: Iterable[Waiting]) -> Waiting:
    """What waits in all of these."""
    several = list(waiting)
    oldest = min((one.since for one in several if one.since), default=None)
    return Waiting(sum(one.length for one in several), oldest)


def _busy() -> set[Place]:
    """Devices that tune a run, measure for a pool, verify a library, or measure runs side by side."""
    runs = Run.objects.live().exclude(device="").values_list("machine__name", "device")
    members = PoolMember.objects.active().values_list("machine__name", "device")
    live = Compilation.objects.on_device().annotate(on=measures_on("run__")).filter(status__in=Compilation.LIVE)
    proofs = live.values_list("machine__name", "on")
    beside = SideBySide.objects.live().values_list("machine__name", "device")
    return {_place(machine, device) for rows in (runs, members, proofs, beside) for machine, device in rows}


def _place(machine: str | None, device: str) -> Place:
    return Place("" if is_shared(device) else machine or "", device)


def _devices(machines: Mapping[str, Sequence[str]], queues: Mapping[Queue, Waiting]) -> dict[Place, Device]:
    """Those of the machines, and others that are used, waited for, or were ever counted."""
    counted: dict[Place, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for machine, device, what, amount in Tally.objects.totals().values_list("machine", "device", "what", "amount"):
        counted[_place(machine, device)][what] += amount
    busy = _busy()
    there_are = {Place(name, device) for name, devices in machines.items() for device in devices}
    served = {place.device for place in there_are}
    elsewhere = {*settings.DEVICES, *(queue.name for queue in queues)} - {COMPILE, EXTRACT, WEBHOOK, WATCH} - served
    places = there_are | counted.keys() | busy | {Place("", device) for device in elsewhere}
    return {place: _device(counted[place], busy=place in busy) for place in sorted(places)}


def _device(counted: Mapping[str, float], *, busy: bool) -> Device:
    what = Tally.What
    return Device(
        busy=busy,
        trials=counted[what.TRIALS],
        failed={kind: counted[Tally.failed_as(kind)] for kind in KINDS},
        tuned_s=counted[what.TUNED_S],
        lag_s=counted[what.LAG_S],
        lags=counted[what.LAGS],
    )
