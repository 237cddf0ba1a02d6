"""Runs' best records measured side by side: asked for, watched and cancelled on the comparison's page."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import CHANGE
from dashboard.http.access import find, may, person, require
from dashboard.presentation.comparing import side_by_side as words
from dashboard.presentation.comparing.view import View
from tuning.actions.comparing import side_by_side
from tuning.models import SideBySide
from tuning.reads.comparing import runs_of
from tuning.validation import Conflict, Invalid

may_change = permission_required(CHANGE, raise_exception=True)


@require_POST
@may_change
def side_by_side_start(request: HttpRequest) -> HttpResponse:
    """Queues the measurement of `runs` and leads back to the view of the comparison that the other fields name."""
    try:
        runs = runs_of(person(request), request.POST.get("runs", ""))
    except Invalid as invalid:
        messages.error(request, f"Not measured. {' '.join(invalid.fields.values())}")
        return redirect("run_list")
    require(request, CHANGE, *runs)
    try:
        side_by_side.measure(runs, person(request))
    except Conflict as conflict:
        messages.error(request, str(conflict))
    return redirect(View.posted(tuple(run.pk for run in runs), request.POST.dict()).url())


@require_GET
def side_by_side_panel(request: HttpRequest, pk: int) -> HttpResponse:
    """How far a measurement is, which the comparison's page polls."""
    row = find(request, SideBySide.objects.kept(), pk=pk)
    context = {
        "row": row,
        "doing": words.doing(row),
        "may_measure": may(person(request), CHANGE, *row.runs.all()),
        "view": View.posted(tuple(row.run_keys), request.GET.dict()),
    }
    response = render(request, "compare/_measuring.html", context)
    if row.has_ended:
        # The figures of the whole page rest on it.
        response.headers["HX-Refresh"] = "true"
    return response


@require_POST
@may_change
def side_by_side_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    row = find(request, SideBySide.objects.kept(), pk=pk)
    require(request, CHANGE, *row.runs.all())
    try:
        side_by_side.cancel(row)
    except Conflict as conflict:
        messages.error(request, str(conflict))
    return redirect(View.posted(tuple(row.run_keys), request.POST.dict()).url())
