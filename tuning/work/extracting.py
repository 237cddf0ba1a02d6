"""One extraction from claim to end: the network's tasks, or why there are none."""

from __future__ import annotations

import logging
import threading

from django.db import transaction
from django.utils import timezone

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Inspected
from tuning.host import sandbox
from tuning.models import ExtractedTask, Extraction, Network

from . import inspection

logger = logging.getLogger(__name__)
Status = Extraction.Status


def extract(extraction: Extraction, shutdown: threading.Event) -> str:
    """Carry out a claimed extraction and give the status in which it ended; at shutdown it is queued again.

    One that was deleted meanwhile, with its network, is `gone`.
    """
    spec, lease = extraction.network.spec(), extraction.lease

    def go_on(step: str) -> bool:
        return not shutdown.is_set() and extraction.renew(step[:100])

    try:
        _store(extraction, inspection.inspect(spec, extraction.target, go_on))
    except sandbox.Abandoned:
        extraction.move(Status.RUNNING, to=Status.QUEUED, mine={"lease": lease}, enqueued_at=None, step="")
    except Refused as refused:
        _fail(extraction, str(refused))
    except Exception as error:
        _fail(extraction, f"Tuneboard's own fault: {error!r}")
        raise
    return Extraction.objects.filter(pk=extraction.pk).values_list("status", flat=True).first() or "gone"


def _store(extraction: Extraction, found: Inspected) -> None:
    """Tasks and status in one transaction; nothing when the lease was lost meanwhile."""
    with transaction.atomic():
        ended = {"finished_at": timezone.now(), "step": ""}
        if not extraction.move(Status.RUNNING, to=Status.FINISHED, mine={"lease": extraction.lease}, **ended):
            logger.warning("Extraction %s was taken away before it ended.", extraction.pk)
            return
        ExtractedTask.objects.bulk_create(
            ExtractedTask(extraction=extraction, **ExtractedTask.described(task)) for task in found.tasks
        )
        Network.objects.filter(pk=extraction.network_id).update(**inspection.summary(found))


def _fail(extraction: Extraction, error: str) -> None:
    extraction.move(
        Status.RUNNING,
        to=Status.FAILED,
        mine={"lease": extraction.lease},
        error=error,
        finished_at=timezone.now(),
        step="",
    )
