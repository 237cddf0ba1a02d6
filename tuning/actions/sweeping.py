"""The sweep: what lost its process is ended, what the broker lost is queued again, what nobody needs is removed."""

from __future__ import annotations

import logging

import msgspec
from django.conf import settings
from django.utils import timezone

from tuning.models import Extraction, Run, TrackerSample
from tuning.notify import webhooks
from tuning.notify.announce import announce_status
from tuning.queue import jobs
from tuning.reads.device_status import asked

from . import compilations
from .networks import tidy
from .purging import purge

logger = logging.getLogger(__name__)


def sweep() -> int:
    """Mark runs whose supervisor is gone, tell the workers again of runs that the broker lost, remove what was deleted.

    Gives the number of runs that it marked.
    """
    marked = [run for run in Run.objects.abandoned() if _interrupt(run)]
    for run in marked:
        logger.warning("Run %s was interrupted: its worker stopped renewing the lease.", run.pk)
        announce_status(run)
    for run in Run.objects.forgotten():
        jobs.enqueue(run)
    _sweep_extractions()
    purge()
    compilations.sweep()
    for delivery in webhooks.sweep():
        jobs.enqueue_delivery(delivery)
    tidy()
    return len(marked)


def _sweep_extractions() -> None:
    gone = {
        "error": "The worker stopped responding. Extract the tasks again.",
        "finished_at": timezone.now(),
        "step": "",
    }
    for extraction in Extraction.objects.abandoned():
        extraction.move(
            Extraction.Status.RUNNING, to=Extraction.Status.FAILED, mine={"lease": extraction.lease}, **gone
        )
    for extraction in Extraction.objects.forgotten():
        jobs.enqueue_extraction(extraction)


def _interrupt(run: Run) -> bool:
    """Only if the lease is the one that ran out: a supervisor may have renewed or ended it meanwhile."""
    return webhooks.end(
        run,
        *Run.LIVE,
        to=Run.Status.INTERRUPTED,
        mine={"lease": run.lease, "heartbeat_at": run.heartbeat_at},
        finished_at=run.heartbeat_at,
        phase=None,
        phase_task=None,
        error="The worker stopped responding. Resume goes on where the run ended.",
    )


def sample_trackers() -> None:
    """Record what each tracker says now, and forget what is older than an hour."""
    for name, address in settings.TRACKERS.items():
        queues, error = asked(address)
        kept = {queue.key: msgspec.to_builtins(queue) for queue in queues}
        TrackerSample.objects.create(tracker=name, queues=kept, error=error)
    TrackerSample.objects.outdated().delete()
