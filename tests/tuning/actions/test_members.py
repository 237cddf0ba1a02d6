"""Who is a member of a project, and with what role."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.world import make_user
from tuning.actions import members, projects
from tuning.models import AuditEntry, Membership, Project
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db


@pytest.fixture
def vision() -> Project:
    return projects.create("vision")


def roles(project: Project) -> dict[str, str]:
    return dict(project.memberships.values_list("user__username", "role"))


def recorded() -> list[tuple[str, str, Any]]:
    rows = AuditEntry.objects.filter(object_kind="project").order_by("pk")
    return [(entry.action, entry.object_name, entry.details) for entry in rows if entry.action != "project.create"]


def test_it_adds_changes_and_removes(vision: Project) -> None:
    make_user("viewer", "ada")
    ada = members.add(vision, " ada ", "operator")
    assert roles(vision) == {"ada": "operator"}
    members.change_role(ada, "admin")
    assert roles(vision) == {"ada": "admin"}
    members.remove(ada)
    assert roles(vision) == {}
    assert recorded() == [
        ("member.add", "vision", {"person": "ada", "role": "operator"}),
        ("member.role", "vision", {"person": "ada", "role": {"from": "operator", "to": "admin"}}),
        ("member.remove", "vision", {"person": "ada", "role": "admin"}),
    ]


def test_a_role_in_one_project_leaves_those_in_others_alone(vision: Project) -> None:
    make_user("viewer", "ada")
    members.remove(members.add(vision, "ada", "admin"))
    assert roles(Project.objects.default()) == {"ada": "viewer"}


def test_a_member_who_manages_the_site_goes_on_managing_it(vision: Project) -> None:
    make_user("admin", "ada")
    members.change_role(members.add(vision, "ada", "viewer"), "operator")
    assert User.objects.get(username="ada").has_perm("tuning.delete_project", vision)


@pytest.mark.parametrize("name", ["", "nobody", None, 7, ["ada"], "a\0da", "\ud800", "Ada", "gone"])
def test_it_refuses_who_is_not_somebody(vision: Project, name: Any) -> None:
    make_user("viewer", "ada")
    gone = make_user("viewer", "gone")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    with pytest.raises(Invalid) as refused:
        members.add(vision, name, "root")
    assert refused.value.fields.keys() == {"name", "role"}
    assert roles(vision) == {}


def test_nobody_is_a_member_twice(vision: Project) -> None:
    make_user("viewer", "ada")
    members.add(vision, "ada", "viewer")
    with pytest.raises(Invalid, match="ada is already a member, with the role viewer"):
        members.add(vision, "ada", "admin")
    assert roles(vision) == {"ada": "viewer"}
    assert [action for action, *_ in recorded()] == ["member.add"]


@pytest.mark.parametrize("role", ["", None, "root", "Admin", ["admin"], {}])
def test_it_refuses_a_role_that_is_not_one(vision: Project, role: Any) -> None:
    make_user("viewer", "ada")
    ada = members.add(vision, "ada", "viewer")
    with pytest.raises(Invalid, match="role: Must be one of viewer, operator, admin"):
        members.change_role(ada, role)
    assert Membership.objects.get(pk=ada.pk).role == "viewer"


def test_whoever_is_slower_is_told_that_the_member_is_gone(vision: Project) -> None:
    make_user("viewer", "ada")
    ada = members.add(vision, "ada", "viewer")
    twin = Membership.objects.get(pk=ada.pk)
    members.remove(ada)
    with pytest.raises(Conflict, match="ada is no longer a member"):
        members.change_role(twin, "admin")
    with pytest.raises(Conflict, match="ada is no longer a member"):
        members.remove(twin)
    assert roles(vision) == {}
