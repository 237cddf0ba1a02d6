"""The pages for unexpected errors, which Django has already logged, and for forms of other sites."""

from __future__ import annotations

import sys

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.csrf import csrf_failure as django_csrf_failure
from django.views.defaults import server_error as django_server_error

from tuning.host.reachable import DATABASE_OUTAGE, DISK_FULL, is_disk_full

UNREACHABLE = "The database can't be reached right now. Nothing is lost: tuning continues. Try again in a moment.\n"


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    """As plain text, 507 if the disk is full and 503 if the database can't be reached; otherwise 500.html."""
    error = sys.exc_info()[1]
    if is_disk_full(error):
        return HttpResponse(f"{DISK_FULL}\n", status=507, content_type="text/plain; charset=utf-8")
    if isinstance(error, DATABASE_OUTAGE):
        return HttpResponse(
            UNREACHABLE, status=503, content_type="text/plain; charset=utf-8", headers={"Retry-After": "5"}
        )
    return django_server_error(request)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403_csrf.html, and the reason for the audit log."""
    request.refused = f"The form came from another site or an old page: {reason}"  # type: ignore[attr-defined]
    return django_csrf_failure(request, reason)
