"""Removes what sign-ins leave behind: ended sessions and old attempts."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog
from django.conf import settings
from django.utils import timezone

from dashboard.models import Session

EVERY_S = 3600.0


class Tidier:
    """Called after each sweep; does something once an hour."""

    def __init__(self) -> None:
        self.due = 0.0

    def __call__(self, **_: Any) -> None:
        """Delete sessions that have expired, and attempts older than KEEP_ATTEMPTS_DAYS."""
        if time.monotonic() < self.due:
            return
        now = timezone.now()
        old = now - timedelta(days=settings.KEEP_ATTEMPTS_DAYS)
        Session.objects.filter(expire_date__lt=now).delete()
        AccessFailureLog.objects.filter(attempt_time__lt=old).delete()
        AccessAttempt.objects.filter(attempt_time__lt=min(old, now - settings.AXES_COOLOFF_TIME)).delete()
        self.due = time.monotonic() + EVERY_S


tidy = Tidier()
