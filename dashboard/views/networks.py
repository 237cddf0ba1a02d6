"""Networks: the list with the upload form, the page of one network, and task extraction."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.accounts import DELETE_NETWORK, UPLOAD, On
from dashboard.forms import ExtractForm, values_of_network
from dashboard.http.access import find, person
from dashboard.views.checking.pages import checks_of
from tuning.actions import projects
from tuning.actions.networks import extracting, float_models, uploading
from tuning.actions.networks.extracting import ExtractionCheckDict
from tuning.models import Extraction, Network, Project, Run
from tuning.reads.network_list import NetworkDict, Untold, builtin_networks, known_operators, operators
from tuning.validation import Busy, Conflict, Invalid, natural

RUNS = 10


@require_GET
def network_list(request: HttpRequest) -> HttpResponse:
    """Uploaded models, the upload form, and the built-in networks by family."""
    user = person(request)
    context = {
        "uploaded": Network.objects.seen_by(user).uploaded().with_runs(user).select_related("project", "uploaded_by"),
        "projects": projects.usable(user, UPLOAD),
        "several_projects": Project.objects.seen_by(user).count() > 1,
        "families": [(family, list(them)) for family, them in groupby(builtin_networks(), itemgetter("family"))],
        "limit_mb": settings.UPLOAD_MB,
        "limit_s": settings.INSPECT_S,
        "torch": settings.TORCH_PYTHON is not None,
    }
    return render(request, "networks/list.html", context)


@require_GET
def network_operators(request: HttpRequest) -> HttpResponse:
    """The operators that uploaded models may have. The page doesn't wait for TVM's first answer: htmx asks for it."""
    if request.headers.get("HX-Request"):
        return render(request, "networks/_operators.html", _operators())
    return render(request, "networks/operators.html", {"operators": known_operators()})


def _operators() -> dict[str, Any]:
    try:
        return {"operators": operators()}
    except (Untold, Busy) as error:
        return {"error": str(error)}


@require_http_methods(["GET", "POST"])
def builtin_page(request: HttpRequest, name: str) -> HttpResponse:
    """A built-in network. On POST it has tasks extracted for the given options."""
    if request.method == "POST" and not request.user.has_perm(UPLOAD):
        raise PermissionDenied
    network = _builtin(name)
    form = ExtractForm(network["options"], request.POST if request.method == "POST" else None)
    if form.is_bound and (made := _extracted(request, form, name)):
        return redirect("network_page", pk=made.network_id)
    user = person(request)
    variants = Network.objects.seen_by(user).filter(kind=Network.Kind.BUILTIN, name=name).with_runs(user).order_by("pk")
    context = {"network": network, "form": form, "variants": variants}
    return render(request, "networks/builtin.html", context, status=422 if form.is_bound else 200)


@require_POST
@permission_required(UPLOAD, raise_exception=True)
def builtin_check(request: HttpRequest, name: str) -> JsonResponse:
    """The errors of the form's current values, by field, and a label of its target."""
    form = ExtractForm(_builtin(name)["options"], request.POST)
    return _told(form, lambda: extracting.check_extraction(form.request(name), person(request)))


@require_POST
@permission_required(UPLOAD, raise_exception=True)
def network_check(request: HttpRequest, pk: int) -> JsonResponse:
    """The same of the form on an uploaded model's page."""
    network, form = _network(request, pk, UPLOAD), ExtractForm([], request.POST)
    return _told(form, lambda: extracting.check_extraction_of(network, request.POST.get("target")))


def _told(form: ExtractForm, check: Callable[[], ExtractionCheckDict]) -> JsonResponse:
    try:
        found = check()
    except Busy as busy:
        found = {"fields": {"target": str(busy)}, "target": None}
    return JsonResponse({**found, "fields": form.by_field(found["fields"]), "warnings": {}})


@require_GET
def network_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One network with its tasks for the latest target, or those of `extraction`."""
    return _page(request, _network(request, pk))


@require_POST
@permission_required(UPLOAD, raise_exception=True)
def network_extract(request: HttpRequest, pk: int) -> HttpResponse:
    """Starts the extraction of tasks for a target and shows it."""
    network = _network(request, pk, UPLOAD)
    form = ExtractForm([], request.POST)
    try:
        made = extracting.extract_tasks_of(network, request.POST.get("target"), person(request))
    except Invalid as invalid:
        form.refuse(invalid.fields)
        return _page(request, network, form)
    return redirect(f"{request.path.removesuffix('extract/')}?extraction={made.pk}#tasks")


@require_POST
@permission_required(UPLOAD, raise_exception=True)
def network_float_model(request: HttpRequest, pk: int) -> HttpResponse:
    """Stores which network a quantized one was made from; none if that is empty."""
    network, given = _network(request, pk, UPLOAD), request.POST.get("float_model", "")
    try:
        float_models.choose(network, natural(given) or given or None)
    except Invalid as invalid:
        messages.error(request, " ".join(invalid.fields.values()))
    else:
        chosen = network.float_model
        told = f"are compared with {chosen.name}" if chosen else "aren’t compared with a float model"
        messages.success(request, f"Libraries of {network.name} {told} when they are benchmarked.")
    return redirect("network_page", pk=pk)


@require_POST
@permission_required(DELETE_NETWORK, raise_exception=True)
def network_delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Deletes an uploaded model that no run uses."""
    network = _network(request, pk, DELETE_NETWORK)
    try:
        uploading.delete(network)
    except (Conflict, Invalid) as error:
        messages.error(request, str(error))
        return redirect("network_page", pk=pk)
    messages.success(request, f"Deleted {network.name}.")
    return redirect("network_list")


@require_GET
def extraction_panel(request: HttpRequest, pk: int) -> HttpResponse:
    """The state of one extraction, which the page polls."""
    extraction = find(request, Extraction.objects.select_related("network"), pk=pk)
    context = {**_tasks_of(extraction), "may": On(request.user, extraction.network)}
    response = render(request, "networks/_extraction.html", context)
    if not extraction.is_waiting:
        # Other parts of the page are known now, too.
        response.headers["HX-Refresh"] = "true"
    return response


def _page(request: HttpRequest, network: Network, form: ExtractForm | None = None) -> HttpResponse:
    extractions = list(network.extractions.all())
    asked = request.GET.get("extraction", "")
    shown = next((one for one in extractions if str(one.pk) == asked), extractions[0] if extractions else None)
    context = {
        "network": network,
        "form": form or ExtractForm([], initial={"target": _next_target(shown)}),
        "extractions": extractions,
        "operators": sorted(network.operators.items(), key=lambda item: (-item[1], item[0])),
        "operator_count": sum(network.operators.values()) or None,
        "runs": Run.objects.seen_by(person(request)).filter(network=network).select_related("created_by")[:RUNS],
        "float_models": float_models.candidates(network) if network.is_quantized else [],
        "batches": [one for one in network.every_batch() if one["id"] != network.pk],
        "checks": checks_of(network, request),
        "may": On(request.user, network),
        "several_projects": Project.objects.seen_by(person(request)).count() > 1,
        "launch": values_of_network(network),
        **(_tasks_of(shown) if shown else {}),
    }
    return render(request, "networks/page.html", context, status=422 if form else 200)


def _next_target(shown: Extraction | None) -> str:
    """The default target of the form: that of a failed extraction, to try again."""
    return json.dumps(shown.target) if shown and shown.status == Extraction.Status.FAILED else "this"


def _tasks_of(extraction: Extraction) -> dict[str, Any]:
    """The extraction's tasks. `share` is of the network's operations."""
    tasks = list(extraction.tasks.all())
    total = sum(task.total_flop for task in tasks)
    rows = [{"task": task, "share": task.total_flop / total if total else None} for task in tasks]
    launch = values_of_network(extraction.network) | {"target": json.dumps(extraction.target)}
    return {"extraction": extraction, "rows": rows, "total": total, "launch": launch}


def _extracted(request: HttpRequest, form: ExtractForm, name: str) -> Extraction | None:
    try:
        return extracting.extract_tasks(form.request(name), person(request))
    except Invalid as invalid:
        form.refuse(invalid.fields)
        return None
    except Busy as busy:  # What was entered stays in the form.
        form.refuse({"target": str(busy)})
        return None


def _builtin(name: str) -> NetworkDict:
    for network in builtin_networks():
        if network["name"] == name:
            return network
    raise Http404


def _network(request: HttpRequest, pk: int, permission: str = "") -> Network:
    return find(request, Network.objects.select_related("project", "uploaded_by"), permission, pk=pk)
