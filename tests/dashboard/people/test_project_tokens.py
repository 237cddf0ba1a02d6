"""A token for one project sees and does only what its owner may do in that project."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from dashboard.accounts import MANAGE_PROJECT, ROLES, VIEW, put_into_role
from dashboard.models import ApiToken
from tests.world import TARGET, make_run, make_user
from tuning.host import targets
from tuning.models import SEES_ALL, AuditEntry, Project, Run
from tuning.queue import jobs

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def without_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "resolve", lambda _: {"target": TARGET, "device": "cpu", "label": "znver4"})
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


@pytest.fixture
def second() -> Project:
    return Project.objects.create(name="second")


@pytest.fixture
def ada(second: Project) -> User:
    """An operator of the first project, and admin of the second one."""
    user = make_user("operator", "ada")
    put_into_role(user, "admin", second)
    return user


def in_session(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def by_token(user: User, project: Project | None, **values: Any) -> Client:
    return Client(headers={"authorization": f"Bearer {ApiToken.issue(user, project=project, **values)}"})


def launch(client: Client, **order: Any) -> Any:
    return client.post("/api/v1/runs", json.dumps({"network": "mlp", "trials": 8} | order), "application/json")


def names(client: Client) -> set[str]:
    return {run["name"] for run in client.get("/api/v1/runs").json()["items"]}


def test_it_launches_into_its_project(ada: User, second: Project) -> None:
    answer = launch(by_token(ada, second))
    assert (answer.status_code, answer.json()["project"]) == (201, "second")
    assert launch(by_token(ada, second), project="second").status_code == 201
    assert set(Run.objects.values_list("project__name", flat=True)) == {"second"}


@pytest.mark.parametrize("project", ["default", "nothing", "SECOND", ["default"], 1])
@pytest.mark.parametrize("role", ["member", "admin"])
def test_it_refuses_to_launch_into_another(ada: User, second: Project, project: Any, role: str) -> None:
    owner = ada if role == "member" else make_user("admin")
    answer = launch(by_token(owner, second), project=project)
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"] == {"project": "This token is only for the project second."}
    assert not Run.objects.exists()


def test_without_a_project_one_must_be_chosen(ada: User) -> None:
    for client in (in_session(ada), by_token(ada, None)):
        assert launch(client).json()["error"]["fields"] == {"project": "Choose a project: default, second."}
        assert launch(client, project="second").json()["project"] == "second"


def test_it_sees_only_its_project(ada: User, second: Project) -> None:
    make_run(name="first")
    make_run(name="other", project=second)
    assert names(by_token(ada, second)) == {"other"}
    assert names(by_token(make_user("admin"), second)) == {"other"}
    assert names(by_token(ada, None)) == names(by_token(make_user("admin", "root"), None)) == {"first", "other"}


def test_its_role_is_the_one_there(ada: User, second: Project) -> None:
    first = Project.objects.default()
    of_first, of_second = (
        ApiToken.objects.owner_of(ApiToken.issue(ada, project=project)) for project in (first, second)
    )
    assert of_first is not None
    assert of_second is not None
    assert not of_first.has_perm(MANAGE_PROJECT)
    assert of_second.has_perm(MANAGE_PROJECT)
    assert not of_second.has_perm(MANAGE_PROJECT, first)
    assert not of_first.has_perm(VIEW, make_run(project=second))


@pytest.mark.parametrize("superuser", [False, True])
def test_an_admins_manages_the_project_but_not_the_site(second: Project, superuser: bool) -> None:
    owner = User.objects.create_superuser("root") if superuser else make_user("admin")
    caught = ApiToken.objects.owner_of(ApiToken.issue(owner, project=second))
    assert caught is not None
    assert caught.get_all_permissions() == {*ROLES["admin"], SEES_ALL}
    assert not caught.has_perm(VIEW, make_run())


def test_it_is_created_and_listed_with_its_project(ada: User, second: Project) -> None:
    client = in_session(ada)
    body = {"name": "ci", "scope": "launch", "project": "second"}
    made = client.post("/api/v1/tokens", json.dumps(body), "application/json")
    assert (made.status_code, made.json()["project"]) == (201, "second")
    client.post("/api/v1/tokens", json.dumps({"name": "all", "scope": "read", "project": None}), "application/json")
    listed = client.get("/api/v1/tokens").json()["items"]
    assert [(one["name"], one["project"]) for one in listed] == [("all", None), ("ci", "second")]
    by_it = Client(headers={"authorization": f"Bearer {made.json()['token']}"})
    assert [one["name"] for one in by_it.get("/api/v1/tokens").json()["items"]] == ["ci"]
    assert AuditEntry.objects.filter(action="token.create").order_by("pk")[0].details["project"] == "second"


@pytest.mark.parametrize("project", ["nothing", 7, ["second"], {"name": "second"}, True])
def test_it_refuses_what_is_no_project_of_the_owner(ada: User, project: Any) -> None:
    body = {"name": "", "scope": "launch", "project": project}
    made = in_session(ada).post("/api/v1/tokens", json.dumps(body), "application/json")
    assert made.status_code == 422
    fields = made.json()["error"]["fields"]
    assert fields.keys() == {"name", "project"}
    assert fields["project"] == "Must be one of these projects, or be left out: default, second."


def test_the_page_offers_ones_own_projects(ada: User) -> None:
    Project.objects.create(name="third")
    client = in_session(ada)
    page = client.get("/account/")
    assertContains(page, "<option>second</option>", html=True)
    assertNotContains(page, "third")
    made = client.post("/account/tokens/", {"name": "ci", "scope": "read", "days": "", "project": "second"})
    assertContains(made, '<td data-label="Project">second</td>', html=True, status_code=201)
    wrong = client.post("/account/tokens/", {"name": "ci", "scope": "read", "days": "", "project": "third"})
    assertContains(wrong, "Must be one of these projects", status_code=422)


def test_the_list_needs_no_query_for_each_token(ada: User, second: Project, django_assert_max_num_queries: Any) -> None:
    for number in range(20):
        ApiToken.issue(ada, name=str(number), project=second)
    client = in_session(ada)
    with django_assert_max_num_queries(7):
        assert len(client.get("/api/v1/tokens").json()["items"]) == 20
