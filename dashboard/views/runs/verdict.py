"""What is left to gain from a run, as a part of its page."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.accounts import On
from dashboard.http.access import find, person
from dashboard.presentation.gaining import chart, words
from dashboard.presentation.gaining.outline import nothing, outline
from tuning.models import Run
from tuning.reads.gaining import Verdict, more, verdict


@require_GET
def run_verdict(request: HttpRequest, pk: int) -> HttpResponse:
    """The panel below the run's summary, and with it cells of the table of tasks."""
    run = find(request, Run.objects.select_related("network", "project", "machine"), pk=pk)
    user, may = person(request), On(request.user, run)
    found = verdict(run, user)
    context = {"run": run, "may": may, **words.shown(found), **_acts(found)}
    if not context["sentences"] and outline(run, user, may):
        context["nothing"] = nothing(run)
    return render(request, "runs/_verdict.html", context)


@require_GET
def run_roofline(request: HttpRequest, pk: int) -> JsonResponse:
    """The run's tasks below what its machine does at best, as a figure; null if that isn't known."""
    run = find(request, Run.objects.select_related("network", "project", "machine"), pk=pk)
    return JsonResponse({"figure": chart.figure(verdict(run, person(request)))})


def _acts(found: Verdict) -> dict[str, Any]:
    """What the panel's buttons do, where the run can be tuned here: launch one of few tasks, extend it by so many trials."""
    run, holders = found.run, found.holders
    if not run.can_tune or not run.trials_done:
        return {}
    trials = more(run)
    settings = {"like": run.pk, "trials": trials, "warm_start": "true"}
    just = {**settings, "tasks": ", ".join(map(str, sorted(holders.indices)))} if holders else None
    return {
        "just": f"{reverse('launch')}?{urlencode(just)}" if just else None,
        "holders": len(holders.tasks) if holders else 0,
        "extend_by": trials if run.can_extend and run.status in Run.ENDED else None,
    }
