"""Carries out a claimed extraction: stores the network's tasks, or why there are none."""

from __future__ import annotations

import logging
import threading

from django.db import transaction

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Inspected
from tuning.host import sandbox
from tuning.models import ExtractedTask, Extraction, Network
from tuning.storage import Away
from tuning.wording import internal_error

from . import inspection

logger = logging.getLogger(__name__)
Status = Extraction.Status


def extract(extraction: Extraction, shutdown: threading.Event) -> str:
    """Return the status in which it ended; at shutdown it is queued again.

    The status is `gone` if it was deleted meanwhile, with its network.
    """

    def go_on(step: str) -> bool:
        return not shutdown.is_set() and extraction.renew(step=step[:100])

    try:
        _store(extraction, inspection.inspect(extraction.network.spec(), extraction.target, go_on))
    except sandbox.Abandoned:
        extraction.requeue(Status.RUNNING, where=extraction.hold)
    except (Refused, Away) as refused:
        extraction.finish(to=Status.FAILED, error=str(refused))
    except Exception as error:
        extraction.finish(to=Status.FAILED, error=internal_error(error))
        raise
    return Extraction.objects.filter(pk=extraction.pk).values_list("status", flat=True).first() or "gone"


def _store(extraction: Extraction, found: Inspected) -> None:
    """Store tasks and status in one transaction, or nothing if the lease was lost."""
    with transaction.atomic():
        if not extraction.finish(to=Status.FINISHED):
            logger.warning("Extraction %s was taken away before it ended.", extraction.pk)
            return
        ExtractedTask.objects.bulk_create(
            ExtractedTask(extraction=extraction, **ExtractedTask.described(task)) for task in found.tasks
        )
        Network.objects.filter(pk=extraction.network_id).update(**inspection.summary(found))
