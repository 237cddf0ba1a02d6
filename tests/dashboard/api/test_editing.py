"""PATCH of a run's name and notes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from dashboard.models import ApiToken
from tests.world import make_run, make_user
from tuning.actions.editing import edit
from tuning.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(client: Client) -> Client:
    client.force_login(make_user("operator", "ada"))
    return client


def patch(client: Client, run: Run, body: Any) -> Any:
    return client.patch(f"/api/v1/runs/{run.pk}", json.dumps(body), content_type="application/json")


def test_it_changes_name_and_notes(client: Client) -> None:
    run = make_run()
    answer = patch(client, run, {"revision": 1, "name": "better", "notes": "**why**"})
    assert answer.status_code == 200
    shown = client.get(f"/api/v1/runs/{run.pk}").json()
    assert shown == answer.json()
    assert (shown["name"], shown["notes"], shown["revision"], shown["edited_by"]) == ("better", "**why**", 2, "ada")
    assert shown["edited_at"]


def test_the_list_has_revisions_but_no_notes(client: Client) -> None:
    edit(make_run(), {"revision": 1, "notes": "long"}, None)
    (shown,) = client.get("/api/v1/runs").json()["items"]
    assert shown["revision"] == 2
    assert not {"notes", "edited_by", "edited_at"} & shown.keys()


def test_a_conflicting_edit_gets_the_current_state(client: Client) -> None:
    run = make_run()
    edit(Run.objects.get(pk=run.pk), {"revision": 1, "notes": "bob's"}, make_user(name="bob"))
    answer = patch(client, run, {"revision": 1, "notes": "ada's"})
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert error["code"] == "conflict"
    assert "bob" in error["message"]
    assert error["current"]["notes"] == "bob's"
    assert error["current"]["revision"] == 2
    again = patch(client, run, {"revision": error["current"]["revision"], "notes": "bob's and ada's"})
    assert (again.status_code, again.json()["revision"]) == (200, 3)


def test_it_names_the_fields_at_fault(client: Client) -> None:
    answer = patch(client, make_run(), {"name": "", "notes": 7})
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"].keys() == {"name", "notes", "revision"}


@pytest.mark.parametrize("size", [65_537, 10_000_000])
def test_notes_that_are_too_long_are_refused_with_their_limit(client: Client, size: int) -> None:
    run = make_run()
    answer = patch(client, run, {"revision": 1, "notes": "x" * size})
    assert answer.status_code == (422 if size < 1_000_000 else 413)
    assert "64 KiB (65,536 bytes)" in answer.json()["error"]["fields"]["notes"]
    run.refresh_from_db()
    assert (run.notes, run.revision) == ("", 1)


def test_a_body_that_is_too_large_isnt_parsed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(_request: Any) -> Any:
        raise AssertionError("it was parsed")

    monkeypatch.setattr("dashboard.api.bodies.json_object", parse)
    assert patch(client, make_run(), {"revision": 1, "notes": "x" * 10_000_000}).status_code == 413


def test_it_is_for_operators(client: Client) -> None:
    run = make_run()
    token = ApiToken.issue(make_user("viewer"))
    headers = {"authorization": f"Bearer {token}"}
    body = json.dumps({"revision": 1, "notes": "x"})
    answer = Client().patch(f"/api/v1/runs/{run.pk}", body, content_type="application/json", headers=headers)
    assert answer.status_code == 403
    assert "edit" in answer.json()["error"]["message"]


def test_a_browser_needs_its_csrf_token() -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(make_user("operator"))
    run = make_run()
    assert patch(strict, run, {"revision": 1, "notes": "x"}).status_code == 403
    run.refresh_from_db()
    assert run.notes == ""
