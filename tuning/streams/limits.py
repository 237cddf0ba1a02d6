"""How many runs that are measured elsewhere one user may have going on at once, so that others can still have theirs."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import User

from tuning.models import Run, Watch
from tuning.validation import Busy


def check_streams(user: User | None) -> None:
    """Raises `Busy` if as many of the user's runs are live streams as anybody may have."""
    if user is None:
        return
    live = Run.objects.live().filter(origin=Run.Origin.STREAMED, created_by=user).count()
    if live >= settings.STREAMS_PER_USER:
        raise Busy(
            f"You already have {live:,} live {'stream' if live == 1 else 'streams'}, the most at once. End one of them first.",
            own=True,
        )


def check_watches(user: User | None) -> None:
    """Raises `Busy` if as many files of the user's are watched, or wait for it, as anybody may have. A command has no user."""
    if user is None:
        return
    going_on = Watch.objects.filter(run__created_by=user, run__status__in=(Run.Status.QUEUED, *Run.LIVE))
    files = going_on.values("project", "path").distinct().count()
    if files >= settings.WATCHES_PER_USER:
        raise Busy(
            f"You already have {files:,} watched {'file' if files == 1 else 'files'}, the most at once. Stop one of them first.",
            own=True,
        )
