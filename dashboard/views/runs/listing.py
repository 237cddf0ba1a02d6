"""The list of runs and its bulk actions. The URL holds its filters and order."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_GET, require_POST
from django_htmx.http import HttpResponseClientRedirect

from dashboard.accounts import CHANGE, On
from dashboard.http.access import find, person
from dashboard.http.paging import long_page
from dashboard.views.queries import chosen, wants_part
from tuning.actions import curation
from tuning.models import Project, Run
from tuning.reads import run_list as reads
from tuning.reads.comparing import FEWEST, MOST
from tuning.reads.run_list import RunFilter, fastest, measured, read_rounds
from tuning.validation import Invalid
from tuning.wording import numbered

from .page import may_change

PAGE = 30
MANY = 1000
"""With more queued and live runs than this, the list refreshes less often."""
HEAVY = ("options", "versions", "warm_start", "adapted", "begun")
"""Large columns that the list doesn't need."""
COLUMNS = (
    ("name", "Run", ""),
    ("status", "Status", ""),
    ("trials_done", "Trials", ""),
    ("trials_failed", "Failed", "r"),
    ("estimated_latency_s", "Estimated latency", "r"),
    ("measured", "Measured", "r"),
    ("duration", "Duration", "r"),
    ("created_at", "Launched", "r"),
)
UNSORTED = ("measured", "duration")
"""No index has them: sorting thousands of runs by them would be slow."""
ALWAYS = ("name", "status")
"""Columns that can't be hidden."""
DOWN_FIRST = ("trials_done", "trials_failed", "created_at")
"""Sorted in descending order at first."""
SHOWN = (("", "Current runs"), ("archived", "Archived"), ("deleted", "Deleted"))
DONE = {
    "tag": "Tagged",
    "untag": "Removed tags from",
    "pin": "Pinned",
    "unpin": "Unpinned",
    "archive": "Archived",
    "unarchive": "Unarchived",
    "delete": "Deleted",
    "restore": "Restored",
    "stop": "Stopping",
}
UNDONE_BY = {"archive": "unarchive", "delete": "restore", "unarchive": "archive"}
"""Actions that remove runs from the list, and the actions that undo them."""


class Told(NamedTuple):
    """What a row tells beyond its run: how many runs come before it, its library's measured latency, whether it is the fastest of its network."""

    ahead: int | None
    measured_s: float | None
    fastest: bool


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    """The runs selected by the query; status 422 and a message if the query is invalid."""
    return _shown(request, request.GET)


@require_POST
@may_change
def run_act(request: HttpRequest) -> HttpResponse:
    """Applies `action` to `runs`, or `undo` (such as `restore:1,2`), and shows the list again."""
    undo, _, undone = request.POST.get("undo", "").partition(":")
    runs = undone if undo else ",".join(request.POST.getlist("runs"))
    _act(request, undo or request.POST.get("action"), runs, request.POST.get("tags", ""))
    here = QueryDict(request.POST.get("here", "").removeprefix("?"))
    return (
        _shown(request, here) if wants_part(request) else redirect(f"{reverse('run_list')}?{chosen(here).urlencode()}")
    )


@require_POST
@may_change
def run_curation(request: HttpRequest, pk: int) -> HttpResponse:
    """Changes tags, pin or archive of one run and shows its page again, or the list if the run was deleted."""
    find(request, Run.objects.all(), CHANGE, pk=pk)
    untag, action = request.POST.get("untag"), request.POST.get("action")
    done = _act(
        request,
        "untag" if untag else action,
        [pk],
        untag or request.POST.get("tags", ""),
        report_success=action == "delete",
    )
    run = Run.objects.filter(pk=pk).first()
    if run is None:  # It was deleted just now.
        return HttpResponseClientRedirect(reverse("run_list")) if request.htmx else redirect("run_list")  # type: ignore[attr-defined]
    if not wants_part(request):
        return redirect("run_page", pk=pk)
    refused = request.POST.get("tags", "") if action == "tag" and not done else ""
    return render(request, "runs/_curation.html", {"run": run, "may": On(request.user, run), "refused": refused})


def _act(request: HttpRequest, action: Any, runs: Any, tags: str, *, report_success: bool = True) -> bool:
    """Applies an action and reports what was done and what was refused; only the latter if not `report_success`.

    Returns whether nothing was refused.
    """
    try:
        outcome = curation.act(person(request), action, runs, tags)
    except Invalid as invalid:
        messages.error(request, " ".join(invalid.fields.values()))
        return False
    if outcome["done"] and report_success:
        _report_success(request, outcome["action"], outcome["done"])
    for reason in dict.fromkeys(outcome["refused"].values()):
        keys = [key for key, why in outcome["refused"].items() if why == reason]
        messages.error(request, f"Not {numbered(keys)}: {reason}")
    return not outcome["refused"]


def _report_success(request: HttpRequest, action: str, keys: list[int]) -> None:
    """Adds a message, with an Undo button where the action can be undone."""
    runs = f"run {keys[0]}" if len(keys) == 1 else f"{len(keys)} runs"
    undo = format_html(
        ' <button class="ghost" type="submit" form="bulk" name="undo" value="{}:{}" data-role="undo" id="undo">Undo</button>',
        UNDONE_BY.get(action, ""),
        ",".join(map(str, keys)),
    )
    messages.success(request, format_html("{} {}.{}", DONE[action], runs, undo if action in UNDONE_BY else ""))


def _shown(request: HttpRequest, asked: QueryDict) -> HttpResponse:
    part = wants_part(request)
    wanted, projects = _wanted(asked), Project.objects.seen_by(person(request)).count()
    context = {"asked": asked, "wanted": wanted, "wrong": {}, "rows": [], "part": part, "query": chosen(asked)}
    try:
        context |= _found(request, wanted, asked, projects)
    except Invalid as invalid:
        context["wrong"] = invalid.fields
    seen = Run.objects.seen_by(person(request))
    statuses = list(seen.filter(status__in=(Run.Status.QUEUED, *Run.LIVE)).values_list("status", flat=True))
    any_run = bool(context["rows"]) or Run.everything.seen_by(person(request)).exists()
    context |= {
        "narrowed": wanted.filters() or wanted.q or wanted.status or context["wrong"],
        "any_run": any_run,
        "running": sum(status in Run.LIVE for status in statuses),
        "every_s": _every_s(len(statuses), any_run=any_run),
        "several_projects": projects > 1,
        "heads": [_head(wanted.order, *column) for column in COLUMNS],
        **({} if part else _choices(person(request))),
    }
    template, status = "runs/_list.html" if part else "runs/list.html", 422 if context["wrong"] else 200
    return render(request, template, context, status=status)


def _every_s(unfinished: int, *, any_run: bool) -> int:
    """How often the list refreshes. The places of thousands of queued runs take a good part of a second."""
    if unfinished > MANY:
        return 10
    return 2 if unfinished else 30 if any_run else 5


def _found(request: HttpRequest, wanted: RunFilter, asked: QueryDict, projects: int) -> dict[str, Any]:
    """Raises `Invalid` for invalid parameters."""
    user = person(request)
    rows, following = _rows(wanted, user, projects, asked.get("cursor") or None)
    statuses = wanted.counts(user)
    places = Run.objects.places() if any(run.status == Run.Status.QUEUED for run in rows) else {}
    read_rounds(rows)
    latencies, first = (measured(rows), fastest(rows, user)) if rows else ({}, set())
    return {
        "rows": [
            (
                run,
                Told(place.ahead if (place := places.get(run.pk)) else None, latencies.get(run.pk), run.pk in first),
            )
            for run in rows
        ],
        "several_machines": len({run.machine_id for run in rows if run.machine_id}) > 1,
        "next": following,
        "statuses": statuses,
        "total": sum(number for _, number in statuses),
        "kept_days": settings.KEEP_DELETED_DAYS,
    }


def _choices(user: User) -> dict[str, Any]:
    """Context of the whole page only: the choices of its filters."""
    return {
        "fewest": FEWEST,
        "most": MOST,
        "projects": reads.projects(user),
        "networks": reads.networks(user),
        "targets": reads.targets(user),
        "tags": reads.tags(user),
        "shown": SHOWN,
        "columns": [(name, title) for name, title, _ in COLUMNS if name not in ALWAYS],
    }


def _wanted(asked: QueryDict) -> RunFilter:
    names = ("q", "project", "network", "target", "since", "until", "order", "show")
    given = {name: text for name in names if (text := asked.get(name, "").strip())}
    several = {name: tuple(filter(None, asked.getlist(name))) for name in ("status", "tag")}
    return RunFilter(**given, **several)  # type: ignore[arg-type]


def _rows(wanted: RunFilter, user: User, projects: int, cursor: str | None) -> tuple[list[Run], str | None]:
    """A page of the list and the cursor of the next page. The first page starts with the pinned runs of all the projects."""
    found, whole = wanted.runs(user), Run.everything.listed().defer(*HEAVY)
    if wanted.show != "current":
        return long_page(found, whole, wanted.order, cursor, PAGE)
    pinned: list[Run] = []
    if not cursor:
        pinned, _ = long_page(
            found.filter(pinned=True), whole, wanted.order, None, (1 + projects) * curation.MOST_PINNED
        )
    others, following = long_page(found.filter(pinned=False), whole, wanted.order, cursor, PAGE)
    return [*pinned, *others], following


def _head(order: str, column: str, title: str, kind: str) -> dict[str, Any]:
    """A column head. Its link sorts by `order`, which reverses the current order if it is by this column."""
    same, down = order.lstrip("-") == column, order.startswith("-")
    turned = not down if same else column in DOWN_FIRST
    return {
        "id": column,
        "title": title,
        "kind": kind,
        "order": None if column in UNSORTED else f"{'-' * turned}{column}",
        "sorted": ("descending" if down else "ascending") if same else "",
    }
