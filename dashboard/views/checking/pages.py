"""The pages of regression checks: all of them, one with its history, and the forms."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.accounts import LAUNCH, On
from dashboard.forms import CheckForm
from dashboard.http.access import find, person
from dashboard.presentation.checking import figures, words
from dashboard.views.acting import act
from tuning.actions.checking import checks
from tuning.models import CheckResult, Network, Project, RegressionCheck, Run
from tuning.validation import Conflict, Invalid, natural

LISTED = 100
"""Results in the table."""
DRAWN = 500
"""Results in the chart."""
CHOICES = 50
"""Runs that the form offers."""
may_launch = permission_required(LAUNCH, raise_exception=True)


@require_GET
def regression_list(request: HttpRequest) -> HttpResponse:
    """The checks of the user's projects, by name."""
    user = person(request)
    found = RegressionCheck.objects.shown().seen_by(user)
    context = {
        "checks": [row(check) for check in found],
        "several_projects": Project.objects.seen_by(user).count() > 1,
    }
    return render(request, "regressions/list.html", context)


@require_http_methods(["GET", "POST"])
@may_launch
def regression_new(request: HttpRequest) -> HttpResponse:
    """The form of a new check of the run that `?run=` names. On POST it makes the check and shows it."""
    form = CheckForm(request.POST if request.method == "POST" else None, initial=_initial(request))
    if form.is_bound:
        try:
            made = checks.create(form.order(), person(request))
        except Invalid as invalid:
            form.refuse(invalid.fields)
        else:
            return redirect("regression_page", pk=made.pk)
    context = {"form": form, "runs": _choices(person(request))}
    return render(request, "regressions/form.html", context, status=422 if form.is_bound else 200)


@require_GET
def regression_page(request: HttpRequest, pk: int) -> HttpResponse:
    """A check with its history, which the page asks for again while a result goes on."""
    check = _check(request, pk)
    results = list(check.results.select_related("asked_by", "run", "compilation__run")[:LISTED])
    context = {
        **row(check),
        "may": On(request.user, check),
        "several_projects": Project.objects.seen_by(person(request)).count() > 1,
        "results": [words.shown(one, check.base_id) for one in results],
        "goes_on": any(one.goes_on for one in results),
        "newest": f"{check.latest_id or ''} {_told_apart(results[0]) if results else ''}",
        "badge": words.badge_address(check),
        "base": check.base,
    }
    return render(request, "regressions/page.html", context)


@require_GET
def regression_figures(request: HttpRequest, pk: int) -> JsonResponse:
    """The Plotly figure of its history."""
    ended = _check(request, pk).results.exclude(verdict__in=("", CheckResult.Verdict.SKIPPED))
    return JsonResponse({"history": figures.history(list(ended[:DRAWN])[::-1])})


@require_http_methods(["GET", "POST"])
@may_launch
def regression_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """The form with the check's plan. On POST it changes the check and shows it."""
    check = _check(request, pk, LAUNCH)
    form = CheckForm(request.POST if request.method == "POST" else None, initial=_values(check), known=True)
    if form.is_bound:
        try:
            checks.change(check, form.order())
        except Invalid as invalid:
            form.refuse(invalid.fields)
        except Conflict as conflict:
            messages.error(request, str(conflict))
            return redirect("regression_list")
        else:
            return redirect("regression_page", pk=pk)
    context = {"form": form, "check": _check(request, pk)}
    return render(request, "regressions/form.html", context, status=422 if form.is_bound else 200)


@require_POST
@may_launch
def regression_set(request: HttpRequest, pk: int) -> HttpResponse:
    """Pauses or resumes it (`paused`), or pins a result (`base`)."""
    check = _check(request, pk, LAUNCH)
    given: dict[str, Any] = {}
    if "paused" in request.POST:
        given["paused"] = request.POST["paused"] == "true"
    if "base" in request.POST:
        given["base"] = request.POST["base"]

    def change() -> None:
        try:
            checks.change(check, given)
        except Invalid as invalid:
            raise Conflict(" ".join(invalid.fields.values())) from invalid

    return act(request, change, "regression_page", pk=pk)


@require_POST
@may_launch
def regression_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Does the check now."""
    check = _check(request, pk, LAUNCH)
    return act(request, lambda: checks.do_now(check, person(request)), "regression_page", pk=pk)


@require_POST
@may_launch
def regression_renew_badge(request: HttpRequest, pk: int) -> HttpResponse:
    """Gives its badge another address."""
    check = _check(request, pk, LAUNCH)
    done = "The badge has another address now. The one before isn't found any more."
    return act(request, lambda: checks.renew_badge(check), "regression_page", done=done, pk=pk)


@require_POST
@may_launch
def regression_delete(request: HttpRequest, pk: int) -> HttpResponse:
    check = _check(request, pk, LAUNCH)
    return act(request, lambda: checks.delete(check), "regression_list", done=f"{check.name} is deleted.")


def row(check: RegressionCheck) -> dict[str, Any]:
    """A check with what a list says of it."""
    name, tone = words.state(check)
    return {
        "check": check,
        "state": name,
        "tone": tone,
        "latest": check.latest,
        "change": words.change(check.latest),
        "headline": words.headline(check),
        "alert": words.alert(check),
        "schedule": words.schedule(check),
        "doing": words.doing(check),
    }


def checks_of(network: Network, request: HttpRequest) -> list[dict[str, Any]]:
    """For the page of a network."""
    found = RegressionCheck.objects.shown().seen_by(person(request)).filter(network=network)
    return [row(check) for check in found]


def _told_apart(result: CheckResult) -> str:
    """What changes with it; the page's script makes the same of the API's answers."""
    return f"{result.pk} {result.stage} {result.verdict}"


def _choices(user: User) -> list[Run]:
    """The latest runs that a check may be made of."""
    found = Run.objects.seen_by(user).filter(network__isnull=False, synthetic=False, archived=False)
    return list(found.only("pk", "name").order_by("-pk")[:CHOICES])


def _initial(request: HttpRequest) -> dict[str, Any]:
    """The run that the address names, with its name and budget."""
    number = natural(request.GET.get("run", ""))
    run = Run.objects.seen_by(person(request)).filter(pk=number).first() if number else None
    return {"run": run.pk, "name": run.name, "trials": run.trials_budget} if run else {}


def _values(check: RegressionCheck) -> dict[str, Any]:
    shown = check.to_dict()
    return {name: shown[name] for name in checks.FIELDS if name != "options"}  # type: ignore[literal-required]


def _check(request: HttpRequest, pk: int, permission: str = "") -> RegressionCheck:
    return find(request, RegressionCheck.objects.shown().select_related("base"), permission, pk=pk)
