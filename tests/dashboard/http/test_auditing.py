"""The audit log says who sent a request, who signed in, and what was refused."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from dashboard.accounts import one_time_login_url
from dashboard.models import ApiToken
from tests.world import make_run, make_user, share_first_project
from tuning import audit
from tuning.audit.refusals import Refusals
from tuning.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_refusals", Refusals())
    share_first_project()


def latest(action: str) -> AuditEntry:
    return AuditEntry.objects.filter(action=action).latest("pk")


def signed_in(role: str, name: str | None = None) -> Client:
    client = Client(REMOTE_ADDR="10.0.0.9")
    client.force_login(make_user(role, name))
    return client


def test_an_act_on_a_page_is_by_its_user() -> None:
    run = make_run()
    signed_in("operator", "ada").post(f"/runs/{run.pk}/stop/")
    entry = latest("run.stop")
    assert (entry.actor, entry.via, entry.token, entry.address) == ("ada", "page", "", "10.0.0.9")
    assert entry.actor_id == User.objects.get(username="ada").pk


def test_an_act_by_token_names_the_token() -> None:
    run, ada = make_run(), make_user("operator", "ada")
    text = ApiToken.issue(ada)
    client = signed_in("admin", "eve")  # Whose session doesn't count.
    client.post(f"/api/v1/runs/{run.pk}/stop", headers={"authorization": f"Bearer {text}"})
    entry = latest("run.stop")
    assert (entry.actor, entry.via, entry.address) == ("ada", "api", "10.0.0.9")
    assert entry.token == str(ApiToken.objects.get())
    assert text not in str(entry.to_dict())


def test_it_knows_who_acts_under_asgi() -> None:
    run, client = make_run(), AsyncClient()
    client.force_login(make_user("operator", "ada"))
    # Through `async_to_sync`, the request's thread is this one, with the connection of this test.
    assert async_to_sync(client.post)(f"/runs/{run.pk}/stop/").status_code == 302
    assert latest("run.stop").actor == "ada"


def test_after_the_request_nobody_acts() -> None:
    signed_in("operator").get("/runs/")
    audit.record("run.remove")
    assert (latest("run.remove").actor, latest("run.remove").via) == ("", "site")


@pytest.mark.parametrize("path", ["/runs/{}/stop/", "/api/v1/runs/{}/stop"])
def test_what_a_role_doesnt_allow_is_recorded(path: str) -> None:
    run = make_run()
    assert signed_in("viewer", "ada").post(path.format(run.pk)).status_code == 403
    entry = latest("person.refused")
    assert (entry.actor, entry.refused, entry.object_kind, entry.object_id) == ("ada", True, "run", run.pk)
    assert "role doesn't allow" in entry.reason
    assert entry.details == {"method": "POST", "path": path.format(run.pk)}


def test_the_same_refusal_again_and_again_is_counted() -> None:
    run, client = make_run(), signed_in("viewer")
    for _ in range(20):
        client.post(f"/runs/{run.pk}/stop/")
    found = AuditEntry.objects.filter(action="person.refused").order_by("pk")
    assert [entry.details.get("times_within_a_minute", 1) for entry in found] == [1, 2, 4, 8, 16]


def test_a_form_of_another_site_is_recorded_as_that() -> None:
    run, client = make_run(), Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator", "ada"))
    assert client.post(f"/runs/{run.pk}/stop/").status_code == 403
    assert latest("person.refused").reason.startswith("The form came from another site or an old page")


def test_nothing_is_recorded_of_strangers_but_failed_sign_ins() -> None:
    run = make_run()
    for path in (f"/runs/{run.pk}/stop/", f"/api/v1/runs/{run.pk}/stop", "/admin/audit/", "/sign-out/"):
        Client().post(path)
    Client(headers={"authorization": "Bearer tb_wrong"}).post(f"/api/v1/runs/{run.pk}/stop")
    Client(enforce_csrf_checks=True).post("/sign-in/", {"username": "ada", "password": "x"})
    assert AuditEntry.objects.count() == 0


def test_signing_in_and_out_is_recorded() -> None:
    make_user("viewer", "ada")
    client = Client(REMOTE_ADDR="10.0.0.9")
    client.post("/sign-in/", {"username": "ada", "password": "correct horse"})
    entry = latest("person.sign_in")
    assert (entry.actor, entry.object_name, entry.address, entry.via) == ("ada", "ada", "10.0.0.9", "page")
    assert entry.details == {"how": "password"}
    client.post("/sign-out/")
    assert latest("person.sign_out").actor == "ada"


def test_a_wrong_password_is_recorded_without_the_password() -> None:
    make_user("viewer", "ada")
    Client(REMOTE_ADDR="10.0.0.9").post("/sign-in/", {"username": "ada", "password": "hunter2"})
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.refused, entry.actor, entry.object_name) == ("person.sign_in", True, "", "ada")
    assert entry.address == "10.0.0.9"
    assert "hunter2" not in str(entry.to_dict())


def test_a_login_url_is_recorded_without_its_token() -> None:
    url = one_time_login_url(make_user("viewer", "ada"), "http://testserver")
    client = Client()
    client.post(url)
    assert latest("person.sign_in").details == {"how": "login URL"}
    Client().post(url)
    failed = latest("person.sign_in")
    assert (failed.refused, failed.actor) == (True, "")
    assert url.partition("=")[2] not in str([entry.to_dict() for entry in AuditEntry.objects.all()])


def test_a_flood_of_names_leaves_few_entries_and_long_names_are_cut() -> None:
    client = Client()
    for number in range(100):
        client.post("/sign-in/", {"username": f"{number}{'x' * 120}", "password": "x"})
    assert AuditEntry.objects.count() <= 32
    assert max(len(entry.object_name) for entry in AuditEntry.objects.all()) <= 150


def test_a_sign_in_that_cant_be_recorded_doesnt_use_the_url_up() -> None:
    from django.db import DatabaseError
    from django.db.models.signals import post_save

    def full(**_: Any) -> None:
        raise DatabaseError("no room")

    url = one_time_login_url(make_user("viewer", "ada"), "http://testserver")
    client = Client(raise_request_exception=False)
    post_save.connect(full, sender=AuditEntry)
    try:
        assert client.post(url).status_code == 500
    finally:
        post_save.disconnect(full, sender=AuditEntry)
    assert "_auth_user_id" not in client.session
    assert client.post(url).status_code == 302
