"""Runs are stopped and deleted by who launched them and by the project's admins; by every operator if the project is shared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.accounts import CANCEL, DELETE, STOP, put_into_role, refusal
from dashboard.models import ApiToken
from tests.world import make_compilation, make_run, make_user, share_first_project
from tuning import audit
from tuning.actions.curation import NOT_YOURS, act
from tuning.audit.refusals import Refusals
from tuning.models import AuditEntry, Compilation, Project, Run

pytestmark = pytest.mark.django_db
WHO = {
    # who asks: (allowed as it is, allowed in a shared project)
    "owner": (True, True),
    "operator": (False, True),
    "viewer": (False, False),
    "admin of the project": (True, True),
    "admin of another project": (False, True),
    "admin of the site": (True, True),
    "superuser": (True, True),
    "former operator, who launched it": (False, False),
}
"""Who may stop and delete a run. The admin of another project is an operator here."""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_refusals", Refusals())


@pytest.fixture
def owner() -> User:
    return make_user("operator", "grace")


def somebody(who: str, owner: User) -> User:
    if who == "owner":
        return owner
    if who == "former operator, who launched it":
        owner.memberships.update(role="viewer")
        return owner
    if who == "superuser":
        return User.objects.create_superuser("root")
    if who == "admin of the site":
        return make_user("admin")
    user = make_user("viewer" if who == "viewer" else "operator", "ada")
    if who.startswith("admin"):
        here = Project.objects.default()
        put_into_role(user, "admin", here if who == "admin of the project" else Project.objects.create(name="second"))
    return user


def in_session(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def by_token(user: User, **values: Any) -> Client:
    return Client(headers={"authorization": f"Bearer {ApiToken.issue(user, **values)}"})


def begun(owner: User) -> Run:
    return make_run(created_by=owner, name="mine")


def ended(owner: User) -> Run:
    return make_run(created_by=owner, name="mine", status="stopped")


def removed(owner: User) -> Run:
    run = ended(owner)
    act(None, "delete", [run.pk])
    return run


WAYS: dict[str, Any] = {
    # how: (what makes the run, the request, whether it was done)
    "page: stop": (begun, lambda client, key: client.post(f"/runs/{key}/stop/"), "stopped"),
    "API: stop": (begun, lambda client, key: client.post(f"/api/v1/runs/{key}/stop"), "stopped"),
    "API: delete": (ended, lambda client, key: client.delete(f"/api/v1/runs/{key}"), "deleted"),
    "API: restore": (removed, lambda client, key: client.post(f"/api/v1/runs/{key}/restore"), "kept"),
    "run's page: delete": (
        ended,
        lambda client, key: client.post(f"/runs/{key}/marks/", {"action": "delete"}),
        "deleted",
    ),
    "run's page: stop": (begun, lambda client, key: client.post(f"/runs/{key}/marks/", {"action": "stop"}), "stopped"),
    **{
        f"list: {action}": (
            prepare,
            lambda client, key, action=action: client.post("/runs/act/", {"action": action, "runs": key}),
            state,
        )
        for action, prepare, state in (
            ("stop", begun, "stopped"),
            ("delete", ended, "deleted"),
            ("restore", removed, "kept"),
        )
    },
    **{
        f"API, many runs: {action}": (
            prepare,
            lambda client, key, action=action: client.post(
                "/api/v1/runs/actions", json.dumps({"action": action, "runs": [key]}), "application/json"
            ),
            state,
        )
        for action, prepare, state in (
            ("stop", begun, "stopped"),
            ("delete", ended, "deleted"),
            ("restore", removed, "kept"),
        )
    },
}


def is_done(run: Run, state: str) -> bool:
    now = Run.everything.get(pk=run.pk)
    return {"stopped": now.status == "stopped", "deleted": bool(now.deleted_at), "kept": not now.deleted_at}[state]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("who", WHO)
def test_who_may(owner: User, who: str, shared: bool) -> None:
    user = somebody(who, owner)
    if shared:
        share_first_project()
    client = in_session(user)
    for how, (prepare, request, state) in WAYS.items():
        run = prepare(owner)
        answer = request(client, run.pk)
        assert is_done(run, state) == WHO[who][shared], f"{how}: {answer.status_code}"
        assert answer.status_code in (200, 204, 302, 403), how


@pytest.mark.parametrize("scope", ["launch", "admin"])
def test_a_token_is_no_detour(owner: User, scope: str) -> None:
    client, own = by_token(make_user("operator", "ada"), scope=scope), by_token(owner, scope=scope)
    run = begun(owner)
    answer = client.post(f"/api/v1/runs/{run.pk}/stop")
    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == refusal(STOP)
    assert own.post(f"/api/v1/runs/{run.pk}/stop").status_code == 200
    assert client.delete(f"/api/v1/runs/{run.pk}").json()["error"]["message"] == refusal(DELETE)


def test_a_run_that_nobody_launched_is_the_admins() -> None:
    """`tune` launches without a user. That somebody launched nothing either makes it not theirs."""
    run = make_run(created_by=None)
    assert in_session(make_user("operator")).post(f"/runs/{run.pk}/stop/").status_code == 403
    assert in_session(make_user("admin")).post(f"/runs/{run.pk}/stop/").status_code == 302


def test_what_others_do_with_a_run_does_not_make_it_theirs(owner: User) -> None:
    run, ada = ended(owner), make_user("operator", "ada")
    client = in_session(ada)
    client.post(f"/runs/{run.pk}/marks/", {"action": "tag", "tags": "mine"})
    body = {"revision": run.revision, "name": "really mine", "created_by": ada.pk}
    client.patch(f"/api/v1/runs/{run.pk}", json.dumps(body), "application/json")
    assert client.delete(f"/api/v1/runs/{run.pk}").status_code == 403


def test_a_compilation_is_cancelled_by_whose_it_or_its_run_is(owner: User) -> None:
    asked, other = make_user("operator", "ada"), make_user("operator", "eve")
    run = ended(owner)
    for user, status in ((other, 403), (asked, 200), (owner, 200)):
        made = make_compilation(run, status="running", created_by=asked)
        answer = in_session(user).post(f"/api/v1/compilations/{made.pk}/cancel")
        assert answer.status_code == status, user
        page = in_session(user).post(f"/compilations/{made.pk}/cancel/")
        assert page.status_code == (403 if status == 403 else 302)
        Compilation.objects.all().delete()
    assert set(AuditEntry.objects.filter(actor="eve", refused=True).values_list("reason", flat=True)) == {
        refusal(CANCEL)
    }


@pytest.mark.parametrize(("name", "shows"), [("grace", True), ("ada", False)])
def test_only_they_have_the_buttons(owner: User, name: str, shows: bool) -> None:
    make_user("operator", "ada")
    client = in_session(User.objects.get(username=name))
    run = begun(owner)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert (
        ('data-role="stop"' in page) == ('data-role="delete"' in page) == ('data-role="stop-dialog"' in page) == shows
    )
    assert 'data-role="extend"' in page
    made = make_compilation(ended(owner), status="running", created_by=owner)
    page = client.get(f"/compilations/{made.pk}/").content.decode()
    assert ('data-role="cancel"' in page) == shows


@pytest.mark.parametrize("how", WAYS)
def test_a_refusal_is_recorded(owner: User, how: str) -> None:
    client = in_session(make_user("operator", "ada"))
    prepare, request, _ = WAYS[how]
    run = prepare(owner)
    request(client, run.pk)
    entry = AuditEntry.objects.filter(refused=True).latest("pk")
    assert (entry.actor, entry.object_kind, entry.object_id) == ("ada", "run", run.pk)
    assert entry.reason in (refusal(STOP), NOT_YOURS)
