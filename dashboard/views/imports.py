"""Import logs: the form, the page of one import, and cancelling it."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import CANCEL_IMPORT, LAUNCH, On
from dashboard.http.access import find, person
from dashboard.views.acting import act
from tuning.actions import projects
from tuning.actions.incoming import imports
from tuning.models import Import, Network, Run
from tuning.reads.network_list import builtin_networks

BAD_LINES = 200
"""As many are shown on the page; the API has all that are kept."""


@require_GET
@permission_required(LAUNCH, raise_exception=True)
def import_new(request: HttpRequest) -> HttpResponse:
    """The form, whose files a script sends."""
    user = person(request)
    known = Network.objects.seen_by(user).exclude(kind=Network.Kind.BUILTIN).values_list("name", flat=True)
    context = {
        "projects": projects.usable(user, LAUNCH),
        "networks": sorted({*known, *(network["name"] for network in builtin_networks())}),
        "limit_mb": settings.UPLOAD_MB,
        "most_files": settings.DATA_UPLOAD_MAX_NUMBER_FILES,
    }
    return render(request, "imports/new.html", context)


@require_GET
def import_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One import; while it goes on, the page asks for itself every second."""
    source = _import(request, pk)
    runs = Run.objects.select_related("network").in_bulk([result["run"] for result in source.results])
    context = {
        "import": source,
        "results": [{**result, "run": runs.get(result["run"])} for result in source.results],
        "bad": source.bad_line_set.all()[:BAD_LINES],
        "more_bad": max(0, source.bad_lines - BAD_LINES),
        "share": source.bytes_read / source.bytes_total if source.bytes_total else None,
        "may": On(request.user, source),
    }
    return render(request, "imports/page.html", context)


@require_POST
@permission_required(CANCEL_IMPORT, raise_exception=True)
def import_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Cancels the import and shows it."""
    return act(request, lambda: imports.cancel(_import(request, pk, CANCEL_IMPORT)), "import_page", pk=pk)


def _import(request: HttpRequest, pk: int, permission: str = "") -> Import:
    return find(request, Import.objects.select_related("project", "created_by"), permission, pk=pk)
