"""The sweep: ends rows whose worker died, announces again what no worker heard of, and removes what nobody needs."""

from __future__ import annotations

import logging

import msgspec
from django.conf import settings

from tuning.host.devices import NotAllowed, remote_of
from tuning.host.machine import identity
from tuning.models import (
    Beat,
    Compilation,
    Delivery,
    Extraction,
    Import,
    PoolMember,
    Run,
    SideBySide,
    Tally,
    TrackerSample,
)
from tuning.models.fleet import SHARED
from tuning.notify.announce import announce_compilation, announce_status
from tuning.queue import jobs
from tuning.reads.device_status import asked
from tuning.storage import store
from tuning.storage.settling import settle
from tuning.work.importing import discard_left

from . import compilations
from .checking.results import tend
from .expiring import expire
from .incoming import imports
from .machines.registering import judge
from .networks import uploading
from .purging import purge
from .tidying import swept

logger = logging.getLogger(__name__)


def sweep() -> int:
    """Return the number of runs that were interrupted because their worker died."""
    _end_abandoned(Import)
    discard_left()  # Before runs: those of an import have no other end.
    interrupted = _end_abandoned(Run)
    _end_unreachable()
    _end_abandoned(Extraction)
    _end_abandoned(Compilation)
    _end_abandoned(SideBySide)
    tend()
    for kind in (Run, Extraction, Compilation, SideBySide, Import, Delivery):
        for row in kind.objects.forgotten():
            jobs.enqueue(row)
    _remove_unneeded()
    PoolMember.objects.lose()
    judge(identity.versions())
    Beat.note(Beat.SWEEP, identity.versions())
    return interrupted


def sample_trackers() -> None:
    """Record what each tracker says now, and delete samples older than an hour."""
    for name, address in settings.TRACKERS.items():
        queues, error = asked(address)
        samples = {queue.key: msgspec.to_builtins(queue) for queue in queues}
        TrackerSample.objects.create(tracker=name, queues=samples, error=error)
    TrackerSample.objects.outdated().delete()


def _end_abandoned(kind: type[Run | Extraction | Compilation | SideBySide | Import]) -> int:
    """Return the number of rows that it ended."""
    rows = [row for row in kind.objects.abandoned() if row.end_abandoned()]
    for row in rows:
        logger.warning("%s %s is %s: its worker stopped renewing the lease.", kind.__name__, row.pk, row.status)
        _clean_up(row)
    return len(rows)


def _end_unreachable() -> None:
    """End what is queued for devices of a tracker that isn't allowed anymore: no worker would take it."""
    queued = Run.Status.QUEUED
    for run in Run.objects.filter(status=queued, device__startswith=SHARED):
        if (why := _not_allowed(run)) and run.end(queued, to=Run.Status.FAILED, error=why):
            announce_status(run)
    proofs = Compilation.objects.on_device().filter(status=queued, run__device__startswith=SHARED)
    for proof in proofs.select_related("run"):
        failed = proof.without_result(Compilation.Status.FAILED)
        if (why := _not_allowed(proof.run)) and proof.end(queued, to=failed, error=why):
            announce_compilation(proof.pk)


def _not_allowed(run: Run) -> str | None:
    """Why the run's remote device can't be used; None if it can."""
    try:
        remote_of(run.device)
    except NotAllowed as why:
        return str(why)
    return None


def _clean_up(row: Run | Extraction | Compilation | SideBySide | Import) -> None:
    """Do for a row what its worker would have done at the end. Pages of extractions and comparisons ask for themselves."""
    if isinstance(row, Run):
        if row.status == Run.Status.FINISHED:  # It won't be resumed, so no engine clears up.
            row.remove_artifacts()
        announce_status(row)
    elif isinstance(row, Compilation):
        row.remove_unpublished()
        announce_compilation(row.pk)
    elif isinstance(row, Import):
        store().remove(row.uploads)


def _remove_unneeded() -> None:
    purge()
    expire()
    compilations.tidy()
    uploading.tidy()
    imports.tidy()
    settle()
    Delivery.objects.outdated().delete()
    Tally.objects.outdated().delete()
    swept.send(sender=None)
