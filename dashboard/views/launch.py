"""The launch form."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.accounts import LAUNCH
from dashboard.forms import LaunchForm, settings_in, settings_of
from dashboard.http.access import find, person
from dashboard.presentation.comparing.view import View
from tuning.actions import advice, launching, runs
from tuning.actions.launches import templates
from tuning.actions.launching import MOST_VARIANTS
from tuning.host import targets
from tuning.host.devices import is_remote
from tuning.models import LaunchTemplate, Run
from tuning.reads import device_status
from tuning.reads.comparing import MOST
from tuning.validation import Busy, Invalid, natural


@require_http_methods(["GET", "POST"])
@permission_required(LAUNCH, raise_exception=True)
def launch(request: HttpRequest) -> HttpResponse:
    """Shows the form with initial values from the URL, or those of a `template` or of the run `like` or that it `continues`.

    On POST it launches the run and shows its page, or several and compares them, or shows the form with errors (422).
    """
    if request.method == "POST":
        form = LaunchForm(person(request), request.POST)
        address = _launched(request, form)
        return redirect(address) if address else form_page(request, form)
    like, template = _run(request, "continues") or _run(request, "like"), _template(request)
    begun = settings_of(like) if like else settings_in(template) if template else {}
    form = LaunchForm(person(request), initial={**begun, **request.GET.dict()})
    return form_page(request, form, like=like, used=template, gone=_gone(form) if begun else [])


def form_page(request: HttpRequest, form: LaunchForm, **context: Any) -> HttpResponse:
    """The form, with its errors if something was sent (422)."""
    project, number = form["project"].value(), natural(str(form["continues"].value() or ""))
    continued = Run.objects.seen_by(person(request)).filter(pk=number).first() if number else None
    of_project = [one for one in templates.usable(person(request)) if one.project.name == project]
    context |= {
        "continued": continued,
        "first_pass": advice.foretold(form.order(), person(request)),
        "plan": _foretold(form),
        "form": form,
        "devices": _devices(),
        "templates": of_project,
        "most": MOST_VARIANTS,
    }
    return render(request, "launch.html", context, status=422 if form.is_bound else 200)


@require_POST
@permission_required(LAUNCH, raise_exception=True)
def check(request: HttpRequest) -> JsonResponse:
    """The errors and the warnings of the form's current values, by field name, a label of its target, and its first pass."""
    form = LaunchForm(person(request), request.POST)
    checked = advice.check(form.order(), person(request))
    plan, wrong = ("", {}) if checked["fields"] else _planned(form, person(request))
    return JsonResponse(
        {
            "plan": plan,
            "fields": form.by_field({**checked["fields"], **wrong}),
            "warnings": form.by_field(checked["warnings"]),
            "target": checked["target"],
            "first_pass": checked["first_pass"],
        }
    )


@require_GET
@permission_required(LAUNCH, raise_exception=True)
def target_tags(_request: HttpRequest) -> JsonResponse:
    """The target tags that TVM knows."""
    try:
        return JsonResponse({"tags": targets.tags()})
    except (Invalid, Busy) as error:
        reason = error.fields["target"] if isinstance(error, Invalid) else str(error)
        return JsonResponse({"tags": [], "error": reason}, status=503)


def _run(request: HttpRequest, name: str) -> Run | None:
    """The run whose settings `?like=` or `?continues=` asks for. Raises `Http404`."""
    if not (number := natural(request.GET.get(name, ""))):
        return None
    ours = Run.objects.filter(origin=Run.Origin.LAUNCHED, synthetic=False)
    return find(request, ours.select_related("network", "project", "chosen_machine"), pk=number)


def _template(request: HttpRequest) -> LaunchTemplate | None:
    """The template that `?template=` names by its number. Raises `Http404`."""
    if not (number := natural(request.GET.get("template", ""))):
        return None
    return find(request, LaunchTemplate.objects.select_related("project"), LAUNCH, pk=number)


def _planned(form: LaunchForm, user: User) -> tuple[str, dict[str, str]]:
    """How many runs the form's variants are, and what is wrong with them."""
    if not (variants := form.variants()):
        return "", {}
    try:
        launches = launching.variants_of(form.order(), variants, user)
    except Invalid as invalid:
        return "", invalid.fields
    return _plan([launch.budget.trials for launch in launches]), {}


def _foretold(form: LaunchForm) -> str:
    """How many runs the form's variants are, before TVM is asked about its target."""
    if not (variants := form.variants()):
        return ""
    try:
        return _plan(launching.budgets_of(form.order(), variants))
    except Invalid:
        return ""


def _plan(budgets: list[int]) -> str:
    each = f" of {budgets[0]:,} trials each" if len(set(budgets)) == 1 else ""
    return f"{len(budgets)} runs{each}, {sum(budgets):,} trials in all."


def _gone(form: LaunchForm) -> list[str]:
    """What the form begins with that can't be chosen anymore."""
    network, interpreter, device = (form[name].value() or "" for name in ("network", "interpreter", "device"))
    known = {
        f"the network {network}": network in [one["name"] for one in form.networks],
        f"the interpreter {interpreter}": interpreter in ("", *settings.LEGACY_PYTHON),
        f"the device {device}": not is_remote(device) or device in device_status.device_choices(),
    }
    return [name for name, there in known.items() if not there]


def _launched(request: HttpRequest, form: LaunchForm) -> str | None:
    """The address of what was launched; None if nothing was."""
    variants = form.variants()
    try:
        if variants:
            return _compared(request, *runs.launch_variants(form.order(), variants, person(request)))
        run = runs.launch(form.order(), person(request))
    except Invalid as invalid:
        form.refuse(invalid.fields)
        return None
    except Busy as busy:  # What was entered stays in the form.
        form.refuse({"target": str(busy)})
        return None
    for message in advice.check(form.order(), person(request))["warnings"].values():
        messages.warning(request, message)
    messages.success(request, f"Launched as run {run.pk}.")
    return reverse("run_page", args=(run.pk,))


def _compared(request: HttpRequest, launched: list[Run], tag: str) -> str:
    """The address of a comparison, or of the list if these are too many to compare."""
    messages.success(request, f"Launched {len(launched)} runs, tagged {tag}.")
    if len(launched) > MOST:
        return f"{reverse('run_list')}?tag={tag}"
    return View(tuple(run.pk for run in launched)).url()


def _devices() -> list[tuple[str, int]]:
    """All devices, each with the number of its running and queued runs."""
    busy = Run.objects.filter(Q(status__in=Run.LIVE) | Q(status=Run.Status.QUEUED)).values_list("device", flat=True)
    runs = Counter(busy)
    return [(device, runs[device]) for device in (*settings.DEVICES, *device_status.choices())]
