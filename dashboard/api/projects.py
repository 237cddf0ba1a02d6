"""Projects and their members."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router, Status
from typing_extensions import TypedDict

from dashboard.accounts import CREATE_PROJECT, DELETE_PROJECT, MANAGE_PROJECT
from dashboard.http.access import find, person
from tuning.actions import members, projects
from tuning.models import Membership, Project
from tuning.reads import project_list
from tuning.reads.project_list import MemberDict, ProjectDict

from . import bodies
from .auth import needs
from .shapes import ERRORS

router = Router(tags=["projects"])
OF_PROJECT = "projects/{number:project_id}"
OF_MEMBER = "projects/{number:project_id}/members/{number:person_id}"


class ProjectList(TypedDict):
    """By name."""

    items: list[ProjectDict]


class MemberList(TypedDict):
    """By name; those who are deactivated last."""

    items: list[MemberDict]


@router.get("projects", response={200: ProjectList, **ERRORS})
def list_projects(request: HttpRequest) -> ProjectList:
    """Your projects; all of them for the site's admins."""
    return {"items": project_list.projects(person(request))}


@router.post(
    "projects", response={201: ProjectDict, **ERRORS}, auth=needs(CREATE_PROJECT), openapi_extra=bodies.PROJECT
)
def create_project(request: HttpRequest) -> Status[ProjectDict]:
    """Create a project. It has no members yet."""
    body = bodies.fields(request, "name")
    return Status(201, project_list.project(projects.create(body.get("name")), person(request)))


@router.get(OF_PROJECT, response={200: ProjectDict, **ERRORS})
def get_project(request: HttpRequest, project_id: int) -> ProjectDict:
    """One of your projects."""
    return project_list.project(_project(request, project_id), person(request))


@router.patch(
    OF_PROJECT, response={200: ProjectDict, **ERRORS}, auth=needs(MANAGE_PROJECT), openapi_extra=bodies.PROJECT_CHANGE
)
def change_project(request: HttpRequest, project_id: int) -> ProjectDict:
    """Rename a project, or say whether operators may stop and delete each other's runs."""
    project = _project(request, project_id, MANAGE_PROJECT)
    projects.change(project, bodies.json_object(request))
    return project_list.project(project, person(request))


@router.delete(OF_PROJECT, response={204: None, **ERRORS}, auth=needs(DELETE_PROJECT))
def delete_project(request: HttpRequest, project_id: int) -> Status[None]:
    """Delete a project that has no runs, models or regression checks. The first one stays."""
    projects.delete(_project(request, project_id, DELETE_PROJECT))
    return Status(204, None)


@router.get(f"{OF_PROJECT}/members", response={200: MemberList, **ERRORS})
def list_members(request: HttpRequest, project_id: int) -> MemberList:
    """The members of one of your projects. The site's admins see every project without being members."""
    return {"items": project_list.members(_project(request, project_id))}


@router.post(
    f"{OF_PROJECT}/members",
    response={201: MemberDict, **ERRORS},
    auth=needs(MANAGE_PROJECT),
    openapi_extra=bodies.MEMBER,
)
def add_member(request: HttpRequest, project_id: int) -> Status[MemberDict]:
    """Make a person a member, by name."""
    project, body = _project(request, project_id, MANAGE_PROJECT), bodies.fields(request, "name", "role")
    return Status(201, project_list.member(members.add(project, body.get("name"), body.get("role"))))


@router.patch(
    OF_MEMBER, response={200: MemberDict, **ERRORS}, auth=needs(MANAGE_PROJECT), openapi_extra=bodies.MEMBER_ROLE
)
def change_member(request: HttpRequest, project_id: int, person_id: int) -> MemberDict:
    """Give a member another role."""
    member, body = _member(request, project_id, person_id), bodies.fields(request, "role")
    members.change_role(member, body.get("role"))
    return project_list.member(member)


@router.delete(OF_MEMBER, response={204: None, **ERRORS}, auth=needs(MANAGE_PROJECT))
def remove_member(request: HttpRequest, project_id: int, person_id: int) -> Status[None]:
    """End a membership at once. What the person launched or uploaded stays."""
    members.remove(_member(request, project_id, person_id))
    return Status(204, None)


def _project(request: HttpRequest, project_id: int, permission: str = "") -> Project:
    return find(request, Project.objects.all(), permission, pk=project_id)


def _member(request: HttpRequest, project_id: int, person_id: int) -> Membership:
    project = _project(request, project_id, MANAGE_PROJECT)
    return get_object_or_404(Membership.objects.select_related("user"), project=project, user=person_id)
