"""People are invited into projects, and have a role in each."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from dashboard.people import managing
from tests.world import make_user
from tuning.actions import members, projects
from tuning.models import AuditEntry
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def vision() -> None:
    projects.create("vision")


def places(name: str) -> dict[str, str]:
    person = managing.person(User.objects.get(username=name))
    return {one["name"]: one["role"] for one in person["projects"]} | (
        {"the site": "admin"} if person["manages_site"] else {}
    )


def test_somebody_is_invited_into_a_project_or_to_manage_the_site() -> None:
    managing.invite("ada", "admin", "vision")
    managing.invite("grace", "admin")
    assert places("ada") == {"vision": "admin"}
    assert places("grace") == {"the site": "admin"}
    entry = AuditEntry.objects.get(action="person.role", object_name="ada")
    assert entry.details == {"role": "admin", "project": "vision"}


@pytest.mark.parametrize("project", [None, "", "Vision", "nowhere", 7, ["vision"]])
def test_a_project_must_be_chosen_among_several(project: Any) -> None:
    with pytest.raises(Invalid) as refused:
        managing.invite("ada", "operator", project)
    assert refused.value.fields.keys() == {"project"}
    grace = make_user("viewer", "grace")
    with pytest.raises(Invalid):
        managing.change_role(grace, "operator", project)
    assert User.objects.count() == 1
    assert places("grace") == {"default": "viewer"}


def test_a_role_in_a_project_leaves_those_in_others_alone() -> None:
    ada = make_user("viewer", "ada")
    managing.change_role(ada, "operator", "vision")
    assert places("ada") == {"default": "viewer", "vision": "operator"}


def test_a_role_in_a_project_ends_that_of_the_site_unless_it_is_the_last_admins() -> None:
    ada = make_user("admin", "ada")
    with pytest.raises(Conflict, match="the last active admin"):
        managing.change_role(ada, "admin", "vision")
    make_user("admin", "grace")
    managing.change_role(ada, "admin", "vision")
    assert places("ada") == {"vision": "admin"}
    assert not User.objects.get(pk=ada.pk).has_perm("auth.change_user")


def test_the_admin_of_a_project_does_not_count_as_one_of_the_site() -> None:
    ada = make_user("admin", "ada")
    make_user("viewer", "grace")
    members.add(projects.create("other"), "grace", "admin")
    with pytest.raises(Conflict, match="the last active admin"):
        managing.deactivate(ada)


def test_they_are_listed_with_their_projects_in_few_queries(django_assert_max_num_queries: Any) -> None:
    for number in range(5):
        members.add(projects.create(f"project {number}"), make_user("viewer", f"ada{number}").username, "admin")
    with django_assert_max_num_queries(4):
        shown = managing.people()
    assert [(one["role"], len(one["projects"])) for one in shown] == [("admin", 2)] * 5
