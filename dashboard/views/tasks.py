"""The page of one task."""

from __future__ import annotations

from itertools import chain
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from dashboard import charts
from tuning.models import Task

POINTS = 4000


@require_GET
def task_page(request: HttpRequest, pk: int, index: int) -> HttpResponse:
    """The task, its own curve and the figures of its best records."""
    task = _task(pk, index)
    alert = next((alert for alert in task.run.alerts(task.run.tasks.defer("tensorir")) if alert["task"] == index), None)
    context = {"task": task, "run": task.run, "records": _records(task), "alert": alert}
    return render(request, "tasks/page.html", context)


@require_GET
def task_figures(_request: HttpRequest, pk: int, index: int) -> JsonResponse:
    """The task's Plotly figure, complete up to the run's trial `last`."""
    task = _task(pk, index)
    run = task.run
    times = charts.recent_times(run)
    end = (run.trials_done, times[-1] if times else 0.0)
    figure = charts.task_figure(task, _trials(task), end)
    return JsonResponse({"run": run.pk, "task": index, "last": run.trials_done, "curve": figure})


def _trials(task: Task) -> list[charts.TrialRow]:
    """About POINTS trials by number, and among them every improvement."""
    columns = ("number", "at_s", "latency_s", "short", "improved")
    trials = task.run.trials.filter(task=task, number__lte=task.run.trials_done)
    level = max(0, (-(-task.trials // POINTS) - 1).bit_length()) if task.trials else 0
    rows = chain(trials.thinned(level).values_list(*columns), trials.improvements().values_list(*columns))
    return sorted(set(rows))


def _records(task: Task) -> list[dict[str, Any]]:
    records = list(task.records.defer("text"))
    return [
        {
            "trial": record.trial,
            "latency_s": record.latency_s,
            "gflops": task.flop / record.latency_s / 1e9 if task.flop else None,
            "gap": record.latency_s / records[0].latency_s - 1,
        }
        for record in records
    ]


def _task(pk: int, index: int) -> Task:
    return get_object_or_404(Task.objects.select_related("run__network", "run__created_by"), run=pk, index=index)
