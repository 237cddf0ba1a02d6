"""Remove for good what was deleted long ago, in small steps, so that no transaction takes long."""

from __future__ import annotations

import time

from tuning import audit
from tuning.models import Run
from tuning.storage import store

BATCH = 2000
"""Trials or rounds in one transaction; a recorder may have to wait for it."""
AT_ONCE_S = 0.5
"""The most that one sweep spends on it, since leases can't wait."""


def purge() -> int:
    """Continue the removal; returns the number of runs that are now completely removed.

    Once its removal has begun, a run can't be restored: half of it may be missing.
    """
    Run.everything.outdated().update(purging=True)
    until, gone = time.monotonic() + AT_ONCE_S, 0
    for run in Run.everything.filter(deleted_at__isnull=False, purging=True).order_by("pk"):
        if not _emptied(run, until):
            break
        for path in (run.work_dir, run.console_log):
            store().remove(path)
        # The row comes last, so that the next sweep finds the run again after a crash.
        with audit.act("run.remove", audit.Thing("run", run.pk, run.name)):
            run.side_by_sides.all().delete()  # They say nothing without one of their runs.
            run.delete()
        gone += 1
    return gone


def _emptied(run: Run, until: float) -> bool:
    """Delete the trials and rounds, in batches since Django loads what it deletes; False if time ran out."""
    while (first := run.trials.order_by("number").values_list("number", flat=True).first()) is not None:
        if time.monotonic() > until:
            return False
        run.trials.filter(number__lt=first + BATCH).delete()
    for rows in (run.rounds, run.rankings):
        while keys := list(rows.values_list("pk", flat=True)[:BATCH]):
            if time.monotonic() > until:
                return False
            rows.filter(pk__in=keys).delete()
    return True
