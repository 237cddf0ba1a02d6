"""The metrics page. Only for admins; Prometheus reads `dashboard.views.metrics`."""

from __future__ import annotations

import shutil
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.accounts import SEE_METRICS
from dashboard.metrics.latencies import served
from dashboard.metrics.site import database_latency_s
from dashboard.presentation.metrics import figures
from dashboard.views.queries import wants_part
from tuning.host.reachable import broker_trouble
from tuning.reads import metrics
from tuning.reads.metrics import State, merged

SHOWN = 20
"""Routes."""

may_see = permission_required(SEE_METRICS, raise_exception=True)


@require_GET
@may_see
def metrics_page(request: HttpRequest) -> HttpResponse:
    """The charts and the present values; htmx gets only the latter."""
    state, answered = metrics.state(), served()
    context = {
        "state": state,
        "rows": _rows(state),
        "lag_s": _lag_s(state),
        "compilations": [(status, count) for status, count in state.compilations.items() if count],
        "served": answered,
        "requests": [*filter(None, [answered.whole]), *answered.routes[:SHOWN]],
        "shown": SHOWN,
        "database_s": database_latency_s(),
        "broker_trouble": broker_trouble(),
        "disk": shutil.disk_usage(settings.VAR),
        "networks": settings.METRICS_FROM,
    }
    return render(request, "admin/_metrics.html" if wants_part(request) else "admin/metrics.html", context)


def _rows(state: State) -> list[dict[str, Any]]:
    """A row for each device, of all machines, with its queue, and for each queue without a device."""
    names = dict.fromkeys([*(place.device for place in state.devices), *(queue.name for queue in state.queues)])
    return [_row(state, name) for name in names]


def _row(state: State, name: str) -> dict[str, Any]:
    devices = [one for place, one in state.devices.items() if place.device == name]
    return {
        "name": name,
        "is_device": bool(devices),
        "busy": sum(one.busy for one in devices),
        "waiting": merged(waiting for queue, waiting in state.queues.items() if queue.name == name),
        "trials": int(sum(one.trials for one in devices)),
        "failed": int(sum(sum(one.failed.values()) for one in devices)),
        "tuned_s": sum(one.tuned_s for one in devices),
    }


def _lag_s(state: State) -> float | None:
    """The mean over all trials; None before the first."""
    lags = sum(device.lags for device in state.devices.values())
    return sum(device.lag_s for device in state.devices.values()) / lags if lags else None


@require_GET
@may_see
def metrics_figures(_request: HttpRequest) -> JsonResponse:
    """A Plotly figure for each chart, by name."""
    return JsonResponse(figures(metrics.state(), metrics.timeline()))
