"""Runs that were deleted long ago go for good, little by little: whatever the run's size, no transaction takes long."""

from __future__ import annotations

import logging
import shutil
import time

from tuning.models import Run

logger = logging.getLogger(__name__)
BATCH = 2000
"""Trials a transaction, so that nobody who records waits for long."""
AT_ONCE_S = 0.5
"""Of each sweep, which has leases to look after."""


def purge() -> int:
    """Go on removing what was deleted long ago; gives the number of runs that are gone now.

    A run whose removal has begun is restored no more, so that nobody finds half of one.
    """
    Run.everything.outdated().update(purging=True)
    until, gone = time.monotonic() + AT_ONCE_S, 0
    for run in Run.everything.filter(deleted_at__isnull=False, purging=True).order_by("pk"):
        if not _emptied(run, until):
            break
        _remove_folder(run)
        # Last: after a crash the next sweep finds the run, and goes on.
        run.delete()
        gone += 1
    return gone


def _emptied(run: Run, until: float) -> bool:
    """Whether its trials are gone. Django would hold all of them in memory."""
    while (first := run.trials.order_by("number").values_list("number", flat=True).first()) is not None:
        if time.monotonic() > until:
            return False
        run.trials.filter(number__lt=first + BATCH).delete()
    return True


def _remove_folder(run: Run) -> None:
    try:
        shutil.rmtree(run.work_dir)
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("Run %s is deleted, but %s couldn't be removed: %s", run.pk, run.work_dir, error)
