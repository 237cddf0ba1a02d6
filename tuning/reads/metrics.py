"""The site's state in figures, and what was counted over time. All reads are ranges of indexes, whatever was ever tuned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, get_args

from django.conf import settings
from django.db.models import Count, Min, QuerySet
from django.utils import timezone

from tuning.engines.wire.protocol import ErrorKind
from tuning.models import Beat, Compilation, Delivery, Extraction, Run, Tally, measures_on

from .machines import listing

KINDS: tuple[str, ...] = get_args(ErrorKind)
"""All kinds of errors that a trial can fail with."""
COMPILE, EXTRACT, WEBHOOK = "compile", "extract", "webhook"
"""The queues that don't belong to a device."""
STEP = timedelta(minutes=10)
"""Between two points of a chart of how a device was used: tuned seconds are counted every few seconds."""


LEAST = timedelta(hours=1)
"""As little time as a chart shows."""


class Waiting(NamedTuple):
    """What waits in a queue, and since when the oldest has; None if nothing waits, or if that isn't recorded."""

    length: int
    since: datetime | None


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
    queues: dict[str, Waiting]
    devices: dict[str, Device]
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
    """By device: the share of each `STEP` in which it tuned, from 0 to 1."""


def state() -> State:
    """Read the state in about fifteen short queries."""
    queues, busy = _queues(), _busy()
    return State(
        runs=_runs(),
        compilations=_by_status(Compilation.objects.kept(), Compilation.Status.values),
        deliveries=_by_status(Delivery.objects.all(), Delivery.Status.values),
        queues=queues,
        devices=_devices(busy, queues),
        swept_at=Beat.objects.filter(name=Beat.SWEEP).values_list("at", flat=True).first(),
        machines=listing.states(),
        silences=listing.silences(),
    )


def timeline(span: timedelta = timedelta(hours=24)) -> Timeline:
    """The counts of this span up to now, or since the first count in it, but of an hour at least. The last minute isn't over."""
    now = timezone.now()
    first = Tally.objects.since(now - span).values_list("minute", flat=True).first() or now
    began = _floor(min(first, now - LEAST), STEP)
    minutes = [began + timedelta(minutes=index) for index in range(int((now - began) / timedelta(minutes=1)) + 1)]
    steps = minutes[:: int(STEP / timedelta(minutes=1))]
    found = Timeline(minutes, {}, {}, steps, {})
    for minute, device, what, amount in Tally.objects.since(began).values_list("minute", "device", "what", "amount"):
        place = int((minute - began) / timedelta(minutes=1))
        kind = Tally(what=what).error_kind
        if kind:
            found.failed.setdefault(kind, [0.0] * len(minutes))[place] += amount
        elif what == Tally.What.TRIALS:
            found.trials.setdefault(device, [0.0] * len(minutes))[place] += amount
        elif what == Tally.What.TUNED_S:
            found.tuned.setdefault(device, [0.0] * len(steps))[int((minute - began) / STEP)] += amount
    for shares in found.tuned.values():
        # A step may get some seconds of the one before.
        shares[:] = [min(1.0, amount / _seconds(start, now)) for start, amount in zip(steps, shares, strict=True)]
    return found


def _seconds(start: datetime, now: datetime) -> float:
    """Of the step, up to now."""
    return max(1.0, min(STEP, now - start).total_seconds())


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


def _queues() -> dict[str, Waiting]:
    """A queue for each device of this machine and each other that something waits for, and those without a device."""
    runs = Run.objects.filter(status=Run.Status.QUEUED)
    unfinished = Compilation.objects.kept().filter(status=Compilation.Status.QUEUED)
    builds = unfinished.filter(stage=Compilation.Stage.BUILD).aggregate(count=Count("pk"), since=Min("queued_at"))
    due = Delivery.objects.filter(status=Delivery.Status.WAITING, due_at__lte=timezone.now())
    messages = due.aggregate(count=Count("pk"), since=Min("due_at"))
    waiting: dict[str, list[tuple[int, datetime]]] = defaultdict(list)
    proofs = Compilation.objects.proving().annotate(on=measures_on("run__")).filter(status=Compilation.Status.QUEUED)
    for rows, device in ((runs, "device"), (proofs, "on")):
        for name, count, since in rows.order_by().values_list(device).annotate(Count("pk"), Min("queued_at")):
            waiting[name].append((count, since))
    names = [*settings.DEVICES, *sorted(waiting.keys() - set(settings.DEVICES))]
    return {
        **{name: _merged(waiting[name]) for name in names},
        COMPILE: Waiting(builds["count"], builds["since"]),
        # An extraction that is tried again doesn't record since when it waits.
        EXTRACT: Waiting(Extraction.objects.filter(status=Extraction.Status.QUEUED).count(), None),
        WEBHOOK: Waiting(messages["count"], messages["since"]),
    }


def _merged(waiting: list[tuple[int, datetime]]) -> Waiting:
    return Waiting(sum(count for count, _ in waiting), min((since for _, since in waiting), default=None))


def _busy() -> set[str]:
    """Devices that tune a run or verify a library."""
    live = Compilation.objects.proving().annotate(on=measures_on("run__")).filter(status__in=Compilation.LIVE)
    proofs = live.values_list("on", flat=True)
    return {*Run.objects.live().values_list("device", flat=True), *proofs}


def _devices(busy: set[str], queues: Mapping[str, Waiting]) -> dict[str, Device]:
    """Those of this machine, and others that are used, waited for, or were ever counted."""
    counted: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for device, what, amount in Tally.objects.totals().values_list("device", "what", "amount"):
        counted[device][what] += amount
    others = (counted.keys() | busy | queues.keys()) - {COMPILE, EXTRACT, WEBHOOK, *settings.DEVICES}
    return {name: _device(counted[name], busy=name in busy) for name in (*settings.DEVICES, *sorted(others))}


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
