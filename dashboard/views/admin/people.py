"""The page of people: invite, give roles, deactivate and reactivate."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import MANAGE_PEOPLE, ROLES, VIEW_PEOPLE, one_time_login_url
from dashboard.http.access import person
from dashboard.http.addresses import site_address
from dashboard.people import managing
from dashboard.views.acting import act, posted_to
from tuning.models import Project
from tuning.validation import Conflict, Invalid

may_view = permission_required(VIEW_PEOPLE, raise_exception=True)
may_manage = permission_required(MANAGE_PEOPLE, raise_exception=True)


@require_GET
@may_view
def people_page(request: HttpRequest) -> HttpResponse:
    return _page(request)


@require_GET
@may_view
def person_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One of them, with the projects and the role in each."""
    user = get_object_or_404(User, pk=pk)
    context = {"person": managing.person(user), "roles": list(ROLES), "role": "operator", **_projects()}
    return render(request, "admin/person.html", context)


@may_manage
@posted_to("people_page")
def people_invite(request: HttpRequest) -> HttpResponse:
    """Shows the new person's login URL, in this answer only."""
    name, role, project = (request.POST.get(field, "") for field in ("name", "role", "project"))
    try:
        user = managing.invite(name, role, project)
    except Invalid as invalid:
        return _page(request, status=422, wrong=invalid.fields, name=name, role=role, project=project)
    return _page(request, status=201, invited=user, login_url=one_time_login_url(user, site_address(request)))


@may_manage
@posted_to("people_page")
def people_link(request: HttpRequest, pk: int) -> HttpResponse:
    """Shows a new login URL, in this answer only."""
    user = get_object_or_404(User, pk=pk)
    try:
        managing.check_may_sign_in(user)
    except Conflict as conflict:
        messages.error(request, str(conflict))
        return redirect("people_page")
    return _page(request, status=201, invited=user, login_url=one_time_login_url(user, site_address(request)))


@require_POST
@may_manage
def people_role(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User, pk=pk)
    role, project = request.POST.get("role", ""), request.POST.get("project", "")
    attempt = partial(managing.change_role, user, role, project, by=person(request))
    where = f" in {project}" if project else ""
    try:
        return act(request, attempt, "person_page", done=f"{user} has the role {role}{where} now.", pk=pk)
    except Invalid as invalid:
        messages.error(request, str(invalid))
        return redirect("person_page", pk=pk)


@require_POST
@may_manage
def people_deactivate(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User, pk=pk)
    attempt = partial(managing.deactivate, user, by=person(request))
    return act(request, attempt, "people_page", done=f"{user} is deactivated and signed out everywhere.")


@require_POST
@may_manage
def people_reactivate(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User, pk=pk)
    return act(request, partial(managing.reactivate, user), "people_page", done=f"{user} can sign in again.")


def _projects() -> dict[str, Any]:
    """The choices of a project, the oldest first, which is the one that is chosen."""
    names = [project.name for project in Project.objects.order_by("pk")]
    return {"projects": names, "project": names[0]}


def _page(request: HttpRequest, status: int = 200, **more: Any) -> HttpResponse:
    context = {
        "people": managing.people(),
        "roles": list(ROLES),
        "role": "viewer",
        "url_age_minutes": settings.SESAME_MAX_AGE // 60,
        **_projects(),
        **more,
    }
    return render(request, "admin/people.html", context, status=status)
