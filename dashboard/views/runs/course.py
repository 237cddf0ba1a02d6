"""How a run went: parts of its page that have addresses of their own, since they are read only once they are looked at."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET

from dashboard.http.access import find
from dashboard.presentation.course import figures, measurers, tables
from tuning.models import Run
from tuning.reads.course import conditions, rankings, rounds
from tuning.validation import natural

MARKED = 400
"""Most noisy trials that are marked; more are thinned."""
JUDGED = 200
"""Rankings whose candidates the scatter shows, the latest ones."""


@require_GET
def run_time(request: HttpRequest, pk: int) -> JsonResponse:
    """Where the time of the run went, and how well its cost model ranked: a table as HTML, and figures."""
    run = _run(request, pk)
    found = rounds.time_of(run)
    points = rankings.accuracy(run) if found else []
    context = {
        "run": run,
        "found": found,
        "total": tables.total(found, live=run.is_live) if found else [],
        "columns": tables.columns(found) if found else [],
        "rows": tables.rows(run, found) if found else [],
        "sentence": rankings.sentence(run),
    }
    return JsonResponse(
        {
            "html": render_to_string("runs/_time.html", context, request),
            "band": figures.band(found["pieces"], run.trials_done) if found else None,
            "accuracy": figures.accuracy(points) if points else None,
            "judged": sorted(run.rankings.order_by().values_list("task__index", flat=True).distinct()),
        }
    )


@require_GET
def run_predicted(request: HttpRequest, pk: int) -> JsonResponse:
    """The predicted scores and measured latencies of a task's latest candidates, as a figure."""
    run = _run(request, pk)
    task = natural(request.GET.get("task", "")) or 0
    return JsonResponse(figures.predicted(rankings.latest(run, task, JUDGED)))


@require_GET
def run_conditions(request: HttpRequest, pk: int) -> JsonResponse:
    """What a machine was like: a figure, null if nothing is recorded, and facts about all that measured the run as HTML.

    `machine` chooses one of the run's pool; without it, it is the one that others used most.
    """
    run = _run(request, pk)
    machines = conditions.machines(run)
    asked = request.GET.get("machine")
    machine = asked if asked in machines else next(iter(machines), None)
    found = conditions.conditions(run, machine)
    figure = figures.conditions(found["samples"], conditions.noisy(run, MARKED, machine))
    context = {
        "facts": measurers.facts(run),
        "measurers": measurers.measurers(found["sessions"]),
        "saving": measurers.saving_power(found["sessions"]),
    }
    html = render_to_string("runs/_processor.html", context, request)
    return JsonResponse({"figure": figure, "html": html, "machines": machines, "machine": machine})


def _run(request: HttpRequest, pk: int) -> Run:
    return find(request, Run.objects.select_related("project"), pk=pk)
