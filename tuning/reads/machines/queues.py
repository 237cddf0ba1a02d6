"""What waits on the site, for how long, and which machines' workers serve it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, QuerySet
from django.db.models.functions import Now
from typing_extensions import TypedDict

from tuning.host.devices import REMOTE
from tuning.models import Compilation, Delivery, Extraction, Import, Machine, Run, SideBySide, measures_on


class SiteQueueDict(TypedDict):
    """What waits for one kind of workers. `device` is empty for those that measure nothing.

    `oldest_at` is None if nothing waits, or if it isn't recorded. `served_by` names the machines whose workers take from it
    now; None where that depends on settings that machines don't tell: a tracker's devices, and watched files.
    """

    name: str
    device: str
    holds: str
    length: int
    oldest_at: str | None
    served_by: list[str] | None


def queues() -> list[SiteQueueDict]:
    """Those of devices, then those without one. Each is read from the database, which is what workers take from."""
    taking = list(Machine.objects.taking_work())
    everybody = [machine.name for machine in taking]
    return [
        *(_of_device(device, waiting, taking) for device, waiting in _waiting_for_devices(taking).items()),
        _queue("compile", "libraries to build", everybody, [_oldest(_builds(), "queued_at")]),
        # An extraction that is tried again doesn't record since when it waits.
        _queue("extract", "models to extract tasks of, logs to import", everybody, [_extractions(), _imports()]),
        _queue("webhook", "messages to other sites", everybody, [_oldest(_messages(), "due_at")]),
        _queue("watch", "files to watch", None, [_oldest(_watches(), "queued_at")]),
    ]


Waiting = tuple[int, "datetime | None"]
"""How many wait, and since when the oldest has."""


def _waiting_for_devices(taking: Sequence[Machine]) -> dict[str, list[Waiting]]:
    """By device: those that a machine serves, and those that are waited for although none does."""
    runs = Run.objects.filter(status=Run.Status.QUEUED).exclude(device="").order_by()
    proofs = Compilation.objects.on_device().filter(status=Compilation.Status.QUEUED).order_by()
    found: dict[str, list[Waiting]] = {device: [] for device in _devices(taking)}
    beside = SideBySide.objects.kept().filter(status=SideBySide.Status.QUEUED).order_by()
    rows: Iterable[tuple[QuerySet[Any], str]] = (
        (runs, "device"),
        (proofs.annotate(on=measures_on("run__")), "on"),
        (beside, "device"),
    )
    for waiting, on in rows:
        for device, count, since in waiting.values_list(on).annotate(Count("pk"), Min("queued_at")):
            found.setdefault(device, []).append((count, since))
    return found


def _devices(taking: Sequence[Machine]) -> list[str]:
    return sorted({device for machine in taking for device in machine.devices} | set(settings.DEVICES))


def _of_device(device: str, waiting: Sequence[Waiting], taking: Sequence[Machine]) -> SiteQueueDict:
    serving = [machine.name for machine in taking if device in machine.devices]
    remote = device.startswith(f"{REMOTE}:")
    words = "runs to tune, libraries to verify, runs to measure side by side"
    return {**_queue(device, words, None if remote else serving, waiting), "device": device}


def _queue(name: str, holds: str, served_by: list[str] | None, waiting: Iterable[Waiting]) -> SiteQueueDict:
    counted = [one for one in waiting if one[0]]
    oldest = min((since for _, since in counted if since), default=None)
    return {
        "name": name,
        "device": "",
        "holds": holds,
        "length": sum(count for count, _ in counted),
        "oldest_at": oldest.isoformat() if oldest else None,
        "served_by": served_by,
    }


def _oldest(rows: QuerySet[Any], since: str) -> Waiting:
    found = rows.order_by().aggregate(count=Count("pk"), since=Min(since))
    return found["count"], found["since"]


def _builds() -> QuerySet[Compilation]:
    return Compilation.objects.kept().filter(status=Compilation.Status.QUEUED, stage=Compilation.Stage.BUILD)


def _extractions() -> Waiting:
    return Extraction.objects.filter(status=Extraction.Status.QUEUED).count(), None


def _imports() -> Waiting:
    return _oldest(Import.objects.filter(status=Import.Status.QUEUED), "created_at")


def _messages() -> QuerySet[Delivery]:
    return Delivery.objects.filter(status=Delivery.Status.WAITING, due_at__lte=Now())


def _watches() -> QuerySet[Run]:
    return Run.objects.filter(status=Run.Status.QUEUED, origin=Run.Origin.WATCHED)
