"""The pages of projects: the site's admins create and delete them, a project's admins decide who its members are."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import CREATE_PROJECT, DELETE_PROJECT, MANAGE_PROJECT, ROLES, VIEW_PEOPLE
from dashboard.http.access import find, person
from dashboard.views.acting import posted_to
from tuning.actions import members, projects
from tuning.models import Membership, Project
from tuning.reads import project_list
from tuning.validation import Conflict, Invalid

may_manage = permission_required(MANAGE_PROJECT, raise_exception=True)
may_create = permission_required(CREATE_PROJECT, raise_exception=True)
may_delete = permission_required(DELETE_PROJECT, raise_exception=True)


@require_GET
@may_manage
def projects_page(request: HttpRequest) -> HttpResponse:
    return _list(request)


@may_create
@posted_to("projects_page")
def project_create(request: HttpRequest) -> HttpResponse:
    """Leads to the new project, which has no members yet."""
    name = request.POST.get("name", "")
    try:
        made = projects.create(name)
    except Invalid as invalid:
        return _list(request, status=422, wrong=invalid.fields, name=name)
    messages.success(request, f"{made} is created. Add its members.")
    return redirect("project_page", pk=made.pk)


@require_GET
@may_manage
def project_page(request: HttpRequest, pk: int) -> HttpResponse:
    return _page(request, _project(request, pk))


@require_POST
@may_manage
def project_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Changes name and sharing, both of which the form sends."""
    project = _project(request, pk)
    given = {"name": request.POST.get("name", ""), "shared": "shared" in request.POST}
    try:
        projects.change(project, given)
    except Invalid as invalid:
        return _page(request, _project(request, pk), status=422, wrong_settings=invalid.fields, given=given)
    except Conflict as conflict:
        messages.error(request, str(conflict))
        return redirect("projects_page")
    messages.success(request, "Saved.")
    return redirect("project_page", pk=pk)


@require_POST
@may_delete
def project_delete(request: HttpRequest, pk: int) -> HttpResponse:
    project = _project(request, pk, DELETE_PROJECT)
    try:
        projects.delete(project)
    except Conflict as conflict:
        messages.error(request, str(conflict))
        return redirect("project_page", pk=pk)
    messages.success(request, f"{project} is deleted.")
    return redirect("projects_page")


@require_POST
@may_manage
def member_add(request: HttpRequest, pk: int) -> HttpResponse:
    project = _project(request, pk)
    name, role = request.POST.get("name", ""), request.POST.get("role", "")
    try:
        member = members.add(project, name, role)
    except Invalid as invalid:
        return _page(request, project, status=422, wrong=invalid.fields, name=name, role=role)
    messages.success(request, f"{member.user} is a member now, with the role {role}.")
    return redirect("project_page", pk=pk)


@require_POST
@may_manage
def member_role(request: HttpRequest, pk: int, person_pk: int) -> HttpResponse:
    member = _member(request, pk, person_pk)
    role = request.POST.get("role", "")
    try:
        members.change_role(member, role)
    except (Conflict, Invalid) as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{member.user} has the role {role} in {member.project} now.")
    return _back(request, member.project)


@require_POST
@may_manage
def member_remove(request: HttpRequest, pk: int, person_pk: int) -> HttpResponse:
    member = _member(request, pk, person_pk)
    try:
        members.remove(member)
    except Conflict as conflict:
        messages.error(request, str(conflict))
    else:
        messages.success(request, f"{member.user} is no longer a member of {member.project}.")
    return _back(request, member.project)


def _back(request: HttpRequest, project: Project) -> HttpResponse:
    """To the project's page, or to the runs if the user has just given up managing it."""
    user = User.objects.get(pk=person(request).pk)
    return redirect("project_page", pk=project.pk) if user.has_perm(MANAGE_PROJECT, project) else redirect("run_list")


def _project(request: HttpRequest, pk: int, permission: str = MANAGE_PROJECT) -> Project:
    return find(request, Project.objects.all(), permission, pk=pk)


def _member(request: HttpRequest, pk: int, person_pk: int) -> Membership:
    return get_object_or_404(Membership, project=_project(request, pk), user=person_pk)


def _list(request: HttpRequest, status: int = 200, **more: Any) -> HttpResponse:
    user = person(request)
    managed = {one.pk for one in Project.objects.seen_by(user) if user.has_perm(MANAGE_PROJECT, one)}
    shown = [one for one in project_list.projects(user) if one["id"] in managed]
    return render(request, "admin/projects.html", {"projects": shown, **more}, status=status)


def _page(request: HttpRequest, project: Project, status: int = 200, **more: Any) -> HttpResponse:
    user = person(request)
    members = project_list.members(project)
    context = {
        "project": project_list.project(project, user),
        "members": members,
        "roles": list(ROLES),
        "role": "operator",
        "why_kept": projects.why_kept(project) if user.has_perm(DELETE_PROJECT, project) else "",
        "addable": _addable(members) if user.has_perm(VIEW_PEOPLE) else [],
        "longest_name": projects.LONGEST_NAME,
        **more,
    }
    return render(request, "admin/project.html", context, status=status)


def _addable(members: list[project_list.MemberDict]) -> list[str]:
    """The names of everybody else who may sign in."""
    known = {member["id"] for member in members}
    people = User.objects.filter(is_active=True).order_by("username").values_list("pk", "username")
    return [name for pk, name in people if pk not in known]
