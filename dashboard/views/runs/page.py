"""The page of a run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import CHANGE, STOP, On
from dashboard.forms import ExtensionForm
from dashboard.http.access import find, person
from dashboard.http.conditional import columns
from dashboard.presentation import charts, downloads
from dashboard.presentation.continuing import continuation
from dashboard.presentation.gaining.outline import outline
from dashboard.views.acting import act
from dashboard.views.compilations import compilations_of
from tuning.actions import launching, runs
from tuning.actions.editing import NOTES_BYTES
from tuning.actions.launching import NAME_LENGTH
from tuning.actions.machines import placing
from tuning.models import MemberDict, Project, Run, Task
from tuning.reads import console
from tuning.reads.comparing import MOST
from tuning.reads.curves import curves
from tuning.validation import Invalid, natural

COMPARABLE = 20
"""How many runs of the same network the page offers for a comparison."""

may_change = permission_required(CHANGE, raise_exception=True)


@require_GET
def run_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One run; scripts keep the page up to date."""
    run = _run(request, pk)
    tasks = list(run.tasks.defer("tensorir"))
    shown = run.to_dict(tasks=tasks)
    user, may = person(request), On(request.user, run)
    context = {
        "run": run,
        "outline": outline(run, user, may),
        "words": shown["words"],
        "continues": continuation(run),
        "alerts": shown["alerts"],
        "members": member_rows(shown["machines"]),
        "members_counted": members_counted(shown["machines"]),
        "priorities": placing.PRIORITIES,
        "most_urgent": Run.Priority.HIGH,
        "rows": task_rows(run, tasks),
        "speed": charts.run_speed(run),
        "average": run.average_speed,
        "remaining": run.remaining(),
        "goes_on": run.status not in Run.ENDED,
        "errors": run.errors.all(),
        "console": console.console(run),
        "extension": ExtensionForm(),
        "name_length": NAME_LENGTH,
        "notes_bytes": NOTES_BYTES,
        "may": may,
        "more": run.can_tune and (may["change_run"] or may["add_run"]),
        "several_projects": Project.objects.seen_by(user).count() > 1,
        "continued_by": Run.objects.filter(continues=run).order_by("pk").only("name"),
        "comparable": Run.objects.seen_by(user)
        .others_of_network(run)
        .select_related("network")
        .defer("notes", "error")[:COMPARABLE],
        "most_compared": MOST,
        **compilations_of(run),
        "downloads": downloads.menu(run),
    }
    return render(request, "runs/page.html", context)


@require_GET
def run_figures(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The run's Plotly figures."""
    run = _run(request, pk)
    return columns(request, run, "figures", lambda: charts.run_figures(run, curves(run)))


@require_GET
def run_console(request: HttpRequest, pk: int) -> JsonResponse:
    """The run's console log from the byte `after` on, or its tail."""
    return JsonResponse(console.console(_run(request, pk), after=natural(request.GET.get("after", ""))))


@require_POST
@may_change
def run_stop(request: HttpRequest, pk: int) -> HttpResponse:
    """Stops the run and shows it."""
    return act(request, lambda: runs.stop(_run(request, pk, STOP)), "run_page", pk=pk)


@require_POST
@may_change
def run_resume(request: HttpRequest, pk: int) -> HttpResponse:
    """Queues the run for the rest of its budget and shows it."""
    return act(request, lambda: runs.resume(_run(request, pk, CHANGE)), "run_page", pk=pk)


@require_POST
@may_change
def run_extend(request: HttpRequest, pk: int) -> HttpResponse:
    """Gives the run more trials or time and shows it."""
    given = {option["name"]: request.POST.get(option["name"], "") for option in launching.extension_options()}
    try:
        return act(request, lambda: runs.extend(_run(request, pk, CHANGE), given), "run_page", pk=pk)
    except Invalid as invalid:
        messages.error(request, f"Not extended. {' '.join(invalid.fields.values())}")
        return redirect("run_page", pk=pk)


@require_POST
@may_change
def run_prioritize(request: HttpRequest, pk: int) -> HttpResponse:
    """Puts the queued run before or after others and shows it."""
    run = _run(request, pk, CHANGE)
    try:
        return act(
            request, lambda: runs.prioritize(run, request.POST.get("priority"), person(request)), "run_page", pk=pk
        )
    except Invalid as invalid:
        messages.error(request, " ".join(invalid.fields.values()))
        return redirect("run_page", pk=pk)


def task_rows(run: Run, tasks: list[Task]) -> list[dict[str, Any]]:
    """The rows of the task table. `share` is of the estimate, if known."""
    total = run.estimated_latency_s
    shares = [task.weighted_latency_s / total if total and task.weighted_latency_s else None for task in tasks]
    return [
        {
            "task": task,
            "share": share,
            "all_failed": 0 < task.trials == task.failed,
            "active": run.is_live and run.phase_task == task.index,
        }
        for task, share in zip(tasks, shares, strict=True)
    ]


def member_rows(members: list[MemberDict]) -> list[dict[str, Any]]:
    """The rows of the table of machines, with each one's share of the trials."""
    total = sum(member["trials"] for member in members)
    return [
        {
            **member,
            "words": member["state"].replace("_", " "),
            "share": member["trials"] / total if total else None,
            "ratio": None if member["differs"] is None else 1 + member["differs"],
        }
        for member in members
    ]


def members_counted(members: list[MemberDict]) -> str:
    """How many are in each state: `12 measuring, 1 left out`."""
    states = Counter(member["state"].replace("_", " ") for member in members)
    return ", ".join(f"{count} {state}" for state, count in states.items())


def _run(request: HttpRequest, pk: int, permission: str = "") -> Run:
    return find(request, Run.objects.select_related("network", "project", "created_by", "machine"), permission, pk=pk)
