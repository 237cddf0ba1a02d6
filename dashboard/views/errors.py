"""The page for unexpected errors, which Django has already logged."""

from __future__ import annotations

import sys

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.defaults import server_error as django_server_error

from tuning.host.reachable import DATABASE_OUTAGE

UNREACHABLE = "The database can't be reached right now. Nothing is lost: tuning continues. Try again in a moment.\n"


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    """503 as plain text if the database can't be reached, otherwise 500.html."""
    if isinstance(sys.exc_info()[1], DATABASE_OUTAGE):
        return HttpResponse(
            UNREACHABLE, status=503, content_type="text/plain; charset=utf-8", headers={"Retry-After": "5"}
        )
    return django_server_error(request)
