"""The answers to unexpected errors, which Django has already logged, and to forms of other sites."""

from __future__ import annotations

import sys

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.csrf import csrf_failure as django_csrf_failure
from django.views.defaults import server_error as django_server_error

from dashboard.http.errors import error_response
from dashboard.http.middleware import API
from tuning.beneath import NotRegular
from tuning.host.reachable import DATABASE_OUTAGE, DISK_FULL, EXHAUSTED, is_disk_full, is_exhausted
from tuning.storage import Away

STORE_AWAY = "The object store can't be reached right now. Nothing is lost: tuning continues. Try again in a moment."
UNREACHABLE = "The database can't be reached right now. Nothing is lost: tuning continues. Try again in a moment."


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    """409 for a file that an engine has replaced, 507 if the disk is full, 503 in an outage or if too many files are open, otherwise 500.

    All but the last are plain text on pages, because their template might not be readable.
    """
    status, text = _known(sys.exc_info()[1])
    if status == 500:
        return django_server_error(request)
    response = _shown(request, status, text)
    if status == 503:
        response.headers["Retry-After"] = "5"
    return response


def _known(error: BaseException | None) -> tuple[int, str]:
    if is_disk_full(error):
        return 507, DISK_FULL
    if is_exhausted(error):
        return 503, EXHAUSTED
    if isinstance(error, NotRegular):
        return 409, str(error)
    if isinstance(error, Away):
        return 503, STORE_AWAY
    return (503, UNREACHABLE) if isinstance(error, DATABASE_OUTAGE) else (500, "")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403_csrf.html, and the reason for the audit log."""
    request.refused = f"The form came from another site or an old page: {reason}"  # type: ignore[attr-defined]
    return django_csrf_failure(request, reason)


def _shown(request: HttpRequest, status: int, text: str) -> HttpResponse:
    if request.path.startswith(API):
        return error_response(status, text)
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain; charset=utf-8")
