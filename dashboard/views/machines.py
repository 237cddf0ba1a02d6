"""The Machines page: all machines of the site, its queues, its trackers, and what admins do with machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import MANAGE_MACHINES
from dashboard.http.access import person
from dashboard.presentation import charts
from tuning.actions.machines import steering
from tuning.models import Machine
from tuning.reads import device_status
from tuning.reads.machines import groups, joining
from tuning.reads.machines.groups import Wanted
from tuning.reads.machines.listing import machines
from tuning.reads.machines.queues import queues

from .acting import act
from .queries import chosen, wants_part

may_manage = permission_required(MANAGE_MACHINES, raise_exception=True)


@require_GET
def machine_page(request: HttpRequest) -> HttpResponse:
    """The machines that the filters leave; htmx gets only the part that it refreshes."""
    everything = machines(person(request))["machines"]
    wanted = Wanted(*(request.GET.get(name, "").strip() for name in ("q", "state", "cpu")))
    matching = [one for one in everything if wanted.has(one)]
    context = {
        "all": everything,
        "matching": len(matching),
        "disturbed": [one["name"] for one in everything if one["disturbed"]],
        "groups": groups.grouped(matching),
        "counts": groups.counts(everything),
        "cpus": sorted({one["cpu"] or groups.UNKNOWN for one in everything}),
        "wanted": wanted,
        "query": chosen(request.GET),
        "queues": queues(),
        "devices": device_status.beside_machines(person(request)),
    }
    if wants_part(request):
        return render(request, "machines/_machines.html", context)
    return render(request, "machines/page.html", {**context, "obstacles": joining.obstacles()})


@require_GET
def tracker_figures(request: HttpRequest) -> JsonResponse:
    """A Plotly figure of the last hour for each tracker, by name."""
    trackers = device_status.beside_machines(person(request))["trackers"]
    return JsonResponse({one["name"]: charts.tracker_figure(one) for one in trackers})


@require_POST
@may_manage
def machine_drain(request: HttpRequest, name: str) -> HttpResponse:
    """Lets the machine take nothing more."""
    return _act(request, name, steering.drain, "{} takes no more work.")


@require_POST
@may_manage
def machine_resume(request: HttpRequest, name: str) -> HttpResponse:
    """Lets the machine take work again."""
    return _act(request, name, steering.resume, "{} takes work again.")


@require_POST
@may_manage
def machine_measure(request: HttpRequest, name: str) -> HttpResponse:
    """Has what the machine does at best measured again, for each target by its next run."""
    return _act(request, name, steering.measure_again, "{} is measured again by its next run for the same target.")


@require_POST
@may_manage
def machine_forget(request: HttpRequest, name: str) -> HttpResponse:
    """Removes the machine from the site."""
    return _act(request, name, steering.forget, "{} is forgotten. Its runs stay.")


def _act(request: HttpRequest, name: str, action: Callable[[Machine], Any], done: str) -> HttpResponse:
    """Do it, and go back to the page with the filters that it had."""
    machine = get_object_or_404(Machine, name=name)
    back = act(request, lambda: action(machine), "machine_page", done=done.format(machine))
    here = chosen(QueryDict(request.POST.get("here", "")))
    return redirect(f"{back.headers['Location']}?{here.urlencode()}") if here else back
