"""Projects and their members through the API."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.dashboard.api.test_people import Api
from tests.world import make_network, make_run, make_user, measured_run
from tuning.actions import members, projects
from tuning.models import Project

pytestmark = pytest.mark.django_db


def outsider(name: str, **roles: str) -> User:
    """A user with these roles in projects, and no others."""
    user = make_user("viewer", name)
    user.memberships.all().delete()
    for project, role in roles.items():
        members.add(Project.objects.get(name=project), name, role)
    return User.objects.get(pk=user.pk)


def test_the_sites_admin_creates_and_deletes_them() -> None:
    api = Api(make_user("admin"))
    made = api("POST", "projects", {"name": "vision"})
    assert made.status_code == 201
    project = made.json()
    assert (project["name"], project["shared"], project["members"], project["role"]) == ("vision", False, 0, None)
    changed = api("PATCH", f"projects/{project['id']}", {"shared": True}).json()
    assert (changed["name"], changed["shared"]) == ("vision", True)
    assert [one["name"] for one in api("GET", "projects").json()["items"]] == ["default", "vision"]
    assert api("GET", f"projects/{project['id']}").json() == changed
    assert api("DELETE", f"projects/{project['id']}").status_code == 204
    assert api("GET", f"projects/{project['id']}").status_code == 404
    assert api("DELETE", f"projects/{Project.objects.default().pk}").status_code == 409


def test_a_projects_admin_decides_who_its_members_are() -> None:
    vision = projects.create("vision")
    make_user("viewer", "joan")
    grace = Api(outsider("grace", vision="admin"))
    place = f"projects/{vision.pk}/members"
    added = grace("POST", place, {"name": "joan", "role": "viewer"})
    assert added.status_code == 201
    joan = added.json()
    assert (joan["name"], joan["role"], joan["active"]) == ("joan", "viewer", True)
    assert grace("PATCH", f"{place}/{joan['id']}", {"role": "operator"}).json()["role"] == "operator"
    assert [one["name"] for one in grace("GET", place).json()["items"]] == ["grace", "joan"]
    assert grace("DELETE", f"{place}/{joan['id']}").status_code == 204
    assert grace("DELETE", f"{place}/{joan['id']}").status_code == 404


def test_others_find_neither_the_project_nor_its_members() -> None:
    vision, secret = projects.create("vision"), projects.create("secret")
    grace = Api(outsider("grace", vision="admin"))
    make_run(project=secret, name="hidden")
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"name": "mine"}),
        ("GET", "/members", None),
        ("POST", "/members", {"name": "grace", "role": "admin"}),
        ("PATCH", "/members/1", {"role": "admin"}),
        ("DELETE", "/members/1", None),
    ):
        assert grace(method, f"projects/{secret.pk}{path}", body).status_code == 404
    assert grace("POST", "projects", {"name": "mine"}).status_code == 403
    assert grace("DELETE", f"projects/{vision.pk}").status_code == 403
    assert [one["name"] for one in grace("GET", "projects").json()["items"]] == ["vision"]
    assert grace("GET", "runs?project=secret").json()["items"] == []


def test_members_look_and_only_admins_change() -> None:
    vision = projects.create("vision")
    ada = Api(outsider("ada", vision="operator", default="admin"))
    assert ada("GET", f"projects/{vision.pk}").json()["role"] == "operator"
    assert len(ada("GET", f"projects/{vision.pk}/members").json()["items"]) == 1
    refused = ada("PATCH", f"projects/{vision.pk}", {"name": "mine"})
    assert refused.status_code == 403
    assert ada("POST", f"projects/{vision.pk}/members", {"name": "ada", "role": "admin"}).status_code == 403


@pytest.mark.parametrize("scope", ["read", "launch"])
def test_a_weaker_token_of_an_admin_only_looks(scope: str) -> None:
    vision = projects.create("vision")
    api = Api(make_user("admin"), scope=scope)
    assert api("GET", f"projects/{vision.pk}/members").status_code == 200
    assert api("POST", "projects", {"name": "x"}).status_code == 403
    assert api("PATCH", f"projects/{vision.pk}", {"name": "x"}).status_code == 403
    assert api("DELETE", f"projects/{vision.pk}").status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "body", "fields"),
    [
        ("POST", "projects", {}, {"name"}),
        ("POST", "projects", {"name": "x", "shared": True}, {"shared"}),
        ("PATCH", "projects/{}", {"name": 7, "shared": "yes"}, {"name", "shared"}),
        ("PATCH", "projects/{}", {"members": []}, {"members"}),
        ("POST", "projects/{}/members", {}, {"name", "role"}),
        ("POST", "projects/{}/members", {"name": "x", "role": "viewer", "rolle": 1}, {"rolle"}),
    ],
)
def test_it_names_every_field_at_fault(method: str, path: str, body: Any, fields: set[str]) -> None:
    api = Api(make_user("admin"))
    refused = api(method, path.format(Project.objects.default().pk), body)
    assert refused.status_code == 422
    assert refused.json()["error"]["fields"].keys() == fields


def test_runs_and_networks_name_their_project_and_are_filtered_by_it() -> None:
    vision = projects.create("vision")
    api = Api(make_user("admin"))
    run, model = measured_run(project=vision), make_network("net", project=vision)
    make_run(device="elsewhere")
    make_network("other", fingerprint="other")
    assert api("GET", f"runs/{run.pk}").json()["project"] == "vision"
    assert [one["id"] for one in api("GET", "runs?project=vision").json()["items"]] == [run.pk]
    assert api("GET", f"networks/{model.pk}").json()["project"] == "vision"
    listed = api("GET", "networks?project=vision").json()["items"]
    assert {one["project"] for one in listed} == {None, "vision"}
    assert [one["name"] for one in listed if one["project"]] == ["net"]
    assert api("GET", "networks?projekt=vision").status_code == 422


def test_somebody_is_invited_into_a_project() -> None:
    projects.create("vision")
    api = Api(make_user("admin"))
    invited = api("POST", "people", {"name": "grace", "role": "admin", "project": "vision"}).json()["person"]
    places = [(one["name"], one["role"]) for one in invited["projects"]]
    assert (invited["manages_site"], places) == (False, [("vision", "admin")])
    refused = api("POST", "people", {"name": "joan", "role": "viewer", "project": "nowhere"})
    assert refused.json()["error"]["fields"].keys() == {"project"}
    changed = api("PATCH", f"people/{invited['id']}", {"role": "viewer", "project": "default"}).json()
    assert [(one["name"], one["role"]) for one in changed["projects"]] == [("default", "viewer"), ("vision", "admin")]
