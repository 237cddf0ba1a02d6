"""Templates of launches: settings that projects keep under a name."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.accounts import LAUNCH
from dashboard.forms import TEMPLATE, VARIANTS, LaunchForm
from dashboard.http.access import find, person
from dashboard.views.acting import act, posted_to
from dashboard.views.launch import form_page
from tuning.actions import projects
from tuning.actions.launches import templates
from tuning.models import LaunchTemplate
from tuning.validation import Busy, Conflict, Invalid

may_launch = permission_required(LAUNCH, raise_exception=True)


@require_GET
@may_launch
def template_list(request: HttpRequest) -> HttpResponse:
    return _list(request)


@may_launch
@posted_to("launch")
def template_save(request: HttpRequest) -> HttpResponse:
    """Keeps what the launch form holds, and shows it as the template's; with errors, the form again (422)."""
    form = LaunchForm(person(request), request.POST)
    replace = "template_replace" in request.POST
    try:
        kept = {**form.order(), "template": request.POST.get(TEMPLATE, ""), "replace": replace}
        template, new = templates.save(kept, person(request))
    except (Invalid, Busy) as error:
        form.refuse(error.fields if isinstance(error, Invalid) else {"target": str(error)})
        return form_page(request, form, saving=True, replace=replace)
    except Conflict as conflict:
        form.refuse({"template": str(conflict)})
        return form_page(request, form, saving=True, replace=replace)
    messages.success(request, f"The template {template.name} {'is saved' if new else 'has these settings now'}.")
    # The variants aren't part of it, but stay in the form.
    varied = {name: request.POST[name] for row in VARIANTS for name in row if request.POST.get(name)}
    return redirect(f"{reverse('launch')}?{urlencode({'template': template.pk, **varied})}")


@may_launch
@posted_to("template_list")
def template_rename(request: HttpRequest, pk: int) -> HttpResponse:
    template, name = _template(request, pk), request.POST.get("name", "")
    try:
        return act(request, lambda: templates.rename(template, name), "template_list", done="Renamed.")
    except Invalid as invalid:
        return _list(request, status=422, wrong=invalid.fields, wrong_one=pk, given=name)


@may_launch
@posted_to("template_list")
def template_delete(request: HttpRequest, pk: int) -> HttpResponse:
    template = _template(request, pk)
    return act(request, lambda: templates.delete(template), "template_list", done=f"{template.name} is deleted.")


def _template(request: HttpRequest, pk: int) -> LaunchTemplate:
    return find(request, LaunchTemplate.objects.select_related("project"), LAUNCH, pk=pk)


def _list(request: HttpRequest, status: int = 200, **context: Any) -> HttpResponse:
    several = len(projects.usable(person(request), projects.LAUNCH)) > 1
    context |= {"templates": templates.usable(person(request)), "several_projects": several}
    return render(request, "runs/templates.html", context | {"longest_name": templates.LONGEST_NAME}, status=status)
