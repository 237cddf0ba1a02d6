"""The devices page: this machine's devices and those of trackers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.http.access import person
from dashboard.presentation import charts
from tuning.reads import device_status

from .queries import wants_part


@require_GET
def device_page(request: HttpRequest) -> HttpResponse:
    """The devices; htmx gets only the part that it refreshes."""
    return render(
        request,
        "devices/_devices.html" if wants_part(request) else "devices/page.html",
        {"devices": device_status.devices(person(request))},
    )


@require_GET
def device_figures(request: HttpRequest) -> JsonResponse:
    """A Plotly figure of the last hour for each tracker, by name."""
    return JsonResponse(
        {one["name"]: charts.tracker_figure(one) for one in device_status.devices(person(request))["trackers"]}
    )
