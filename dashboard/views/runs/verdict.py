"""What is left to gain from a run, as a part of its page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.http.access import find, person
from dashboard.presentation.gaining import words
from tuning.models import Run
from tuning.reads.gaining import verdict


@require_GET
def run_verdict(request: HttpRequest, pk: int) -> HttpResponse:
    """The panel below the run's summary, and with it cells of the table of tasks."""
    run = find(request, Run.objects.select_related("network", "machine"), pk=pk)
    found = verdict(run, person(request))
    return render(request, "runs/_verdict.html", {"run": run, **words.shown(found)})
