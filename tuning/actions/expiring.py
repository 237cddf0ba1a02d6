"""Delete entries of the audit log that are older than TUNEBOARD_AUDIT_DAYS. This is itself recorded."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone

from django.conf import settings

from tuning import audit
from tuning.models import AuditEntry

BATCH = 5000
"""Entries that one sweep deletes: others wait for the database meanwhile."""


def expire() -> int:
    """Delete the oldest of the outdated entries; return how many.

    They go by whole days (UTC), so that the entries that record this are few.
    """
    if not settings.AUDIT_DAYS:
        return 0
    today = datetime.combine(datetime.now(timezone.utc), time.min, timezone.utc)
    before = today - timedelta(days=settings.AUDIT_DAYS)
    if not AuditEntry.objects.filter(at__lt=before).exists():
        return 0
    with audit.act("audit.expire", before=before.date().isoformat()) as act:
        act.details["entries"] = gone = AuditEntry.objects.expire(before, BATCH)
    return gone
