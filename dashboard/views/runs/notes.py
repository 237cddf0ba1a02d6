"""A run's notes and their preview."""

from __future__ import annotations

from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import CHANGE, On
from dashboard.http.access import find
from dashboard.presentation import notes
from tuning.actions.editing import notes_text
from tuning.models import Run
from tuning.validation import Invalid


@require_GET
def run_notes(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of the run's page that shows the notes."""
    run = find(request, Run.objects.select_related("edited_by", "project"), pk=pk)
    return render(request, "runs/_notes.html", {"run": run, "may": On(request.user, run)})


@require_POST
@permission_required(CHANGE, raise_exception=True)
def notes_preview(request: HttpRequest) -> HttpResponse:
    """Renders the posted `notes` as HTML without storing them. Status 422 with a message if they are invalid."""
    try:
        text = notes_text(request.POST.get("notes", ""))
    except Invalid as invalid:
        return HttpResponse(" ".join(invalid.fields.values()), status=422, content_type="text/plain")
    return HttpResponse(notes.html(text))
