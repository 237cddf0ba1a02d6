"""The audit log's page, its CSV and its API, for admins only."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from dashboard.accounts import SEE_AUDIT
from tests.world import make_run, make_user
from tuning.audit import LONGEST_TEXT
from tuning.models import AuditEntry

pytestmark = pytest.mark.django_db
PATHS = ("/admin/audit/", "/admin/audit/entries.csv", "/api/v1/audit")


def client_of(role: str) -> Client:
    client = Client()
    client.force_login(make_user(role))
    return client


def entry(**values: Any) -> AuditEntry:
    defaults: dict[str, Any] = {"actor": "ada", "actor_id": 1, "via": "page", "action": "run.stop"}
    return AuditEntry.objects.create(**(defaults | values))


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_admins_see_it(role: str) -> None:
    run = make_run()
    client = client_of(role)
    assert not make_user(role, "other").has_perm(SEE_AUDIT)
    assert [client.get(path).status_code for path in PATHS] == [403, 403, 403]
    assertNotContains(client.get(f"/runs/{run.pk}/"), "/admin/audit/")


def test_admins_see_it_also_from_a_run() -> None:
    run, client = make_run(), client_of("admin")
    assert [client.get(path).status_code for path in PATHS] == [200, 200, 200]
    assertContains(client.get(f"/runs/{run.pk}/"), f"/admin/audit/?object=run+{run.pk}")


def test_it_shows_who_did_what() -> None:
    entry(object_kind="run", object_id=7, object_name="<b>bold</b>", details={"trials": 64}, address="10.0.0.9")
    entry(actor="", action="person.sign_in", object_kind="person", object_name="mal", refused=True, reason="Wrong.")
    page = client_of("admin").get("/admin/audit/")
    for text in ('href="/runs/7/"', "&lt;b&gt;bold&lt;/b&gt;", "trials</span> 64", "10.0.0.9", "?person=ada", "Wrong."):
        assertContains(page, text)
    assertContains(page, "not signed in")
    assertNotContains(page, "<b>bold</b>")


def test_filters_are_in_the_address() -> None:
    entry(object_kind="run", object_id=7)
    entry(actor="eve", object_kind="run", object_id=8)
    client = client_of("admin")
    assertNotContains(client.get("/admin/audit/?person=eve"), 'href="/runs/7/"')
    empty = client.get("/admin/audit/?q=&person=eve&action=")
    assert empty.headers["Location"] == "/admin/audit/?person=eve"
    wrong = client.get("/admin/audit/?object=7")
    assert wrong.status_code == 422
    assertContains(wrong, "such as run 7", status_code=422)
    assertContains(client.get("/admin/audit/?person=nobody"), "No entry matches")


def test_pages_follow_each_other_without_gaps() -> None:
    keys = [entry(object_id=number).pk for number in range(60)]
    client, shown = client_of("admin"), []
    path: str | None = "/admin/audit/?person=ada"
    while path:
        page = client.get(path)
        shown += [row["entry"].pk for row in page.context["rows"]]
        path = f"/admin/audit/?person=ada&cursor={page.context['next']}" if page.context["next"] else None
    assert shown == keys[::-1]


def test_the_api_has_the_same() -> None:
    keys = [entry(object_kind="run", object_id=7).pk for _ in range(3)]
    entry(actor="eve")
    client = client_of("admin")
    path = "/api/v1/audit?person=ada&object=run+7"
    first = client.get(f"{path}&limit=2").json()
    second = client.get(f"{path}&cursor={first['next']}").json()
    assert [item["id"] for item in first["items"] + second["items"]] == keys[::-1]
    assert client.get("/api/v1/audit?object=7").status_code == 422
    assert client.get("/api/v1/audit?persn=ada").status_code == 422
    assert client.get("/api/v1/audit?cursor=x").status_code == 422


def test_the_csv_has_what_the_filters_select_and_is_recorded() -> None:
    entry(details={"text": "x" * LONGEST_TEXT})
    entry(actor="=cmd|'/c calc'!A1")
    client = client_of("admin")
    answer: Any = client.get("/admin/audit/entries.csv?action=run.stop")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [row["actor"] for row in rows] == ["'=cmd|'/c calc'!A1", "ada"]
    assert answer.headers["Content-Disposition"].startswith("attachment")
    told = AuditEntry.objects.get(action="audit.download")
    assert (told.actor, told.details) == ("a-admin", {"filters": {"action": "run.stop"}})
    assert client.get("/admin/audit/entries.csv?since=x").status_code == 400
