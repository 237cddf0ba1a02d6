"""Tagging, pinning, archiving, deleting and restoring runs in the API, and filtering the list by these marks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from tests.world import claimed, make_run, make_user
from tuning.models import Project, Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(client: Client) -> Client:
    Project.objects.update(shared=True)
    client.force_login(make_user("operator"))
    return client


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    return client.generic(method, f"/api/v1/{path}", json.dumps(body), content_type="application/json")


def found(client: Client, **query: Any) -> list[int]:
    return [run["id"] for run in client.get("/api/v1/runs", query).json()["items"]]


def test_it_marks_a_run(client: Client) -> None:
    run = make_run()
    body = {"pinned": True, "add_tags": ["Good", "b-1"], "remove_tags": ["absent"]}
    shown = send(client, "PATCH", f"runs/{run.pk}/marks", body).json()
    assert (shown["tags"], shown["pinned"], shown["archived"], shown["deleted_at"]) == (
        ["b-1", "good"],
        True,
        False,
        None,
    )
    send(client, "PATCH", f"runs/{run.pk}/marks", {"archived": True, "remove_tags": ["good"]})
    shown = client.get(f"/api/v1/runs/{run.pk}").json()
    assert (shown["tags"], shown["pinned"], shown["archived"]) == (["b-1"], False, True)


def test_it_names_what_is_wrong_with_a_mark(client: Client) -> None:
    run = make_run()
    response = send(client, "PATCH", f"runs/{run.pk}/marks", {"pinned": 1, "add_tags": ["a"], "colour": "red"})
    assert response.status_code == 422
    assert response.json()["error"]["fields"].keys() == {"pinned", "colour"}
    assert not run.tags.exists()
    assert send(client, "PATCH", "runs/4711/marks", {"pinned": True}).status_code == 404


def test_it_deletes_and_restores(client: Client) -> None:
    run, other = make_run(status="finished"), make_run()
    assert send(client, "DELETE", f"runs/{run.pk}").status_code == 204
    assert client.get(f"/api/v1/runs/{run.pk}").status_code == 404
    assert send(client, "DELETE", f"runs/{run.pk}").status_code == 404
    assert (found(client), found(client, show="deleted")) == ([other.pk], [run.pk])
    (shown,) = client.get("/api/v1/runs", {"show": "deleted"}).json()["items"]
    assert shown["deleted_at"] is not None
    assert send(client, "POST", f"runs/{run.pk}/restore").json()["id"] == run.pk
    assert send(client, "POST", f"runs/{run.pk}/restore").status_code == 409
    assert found(client) == [other.pk, run.pk]


def test_it_does_not_delete_live_runs(client: Client) -> None:
    run = claimed(make_run())
    response = send(client, "DELETE", f"runs/{run.pk}")
    assert response.status_code == 409
    assert "stop it before" in response.json()["error"]["message"]


def test_it_has_the_filters_of_the_page(client: Client) -> None:
    plain, marked, archived = make_run(), make_run(pinned=True), make_run(archived=True)
    for name in ("good", "old"):
        marked.tags.create(name=name)
    plain.tags.create(name="good")
    assert found(client) == [marked.pk, plain.pk]
    assert found(client, tag=["good", "OLD"]) == found(client, pinned="true") == [marked.pk]
    assert found(client, pinned="false") == [plain.pk]
    assert found(client, show="archived") == [archived.pk]
    today = plain.created_at.date().isoformat()
    assert found(client, since=today, until=today, network="mlp", target=plain.target_fingerprint) == [
        marked.pk,
        plain.pk,
    ]
    assert found(client, until="2001-01-01") == found(client, network="other") == []


def test_pinning_does_not_change_the_order(client: Client) -> None:
    pinned, new = make_run(pinned=True), make_run()
    assert found(client) == [new.pk, pinned.pk]


def test_it_changes_many_runs(client: Client) -> None:
    runs, live = [make_run(status="stopped") for _ in range(2)], claimed(make_run())
    keys = [*(run.pk for run in runs), live.pk, 4711]
    answer = send(client, "POST", "runs/actions", {"action": "delete", "runs": keys}).json()
    assert (answer["action"], answer["done"]) == ("delete", keys[:2])
    assert answer["refused"].keys() == {str(live.pk), "4711"}
    answer = send(client, "POST", "runs/actions", {"action": "restore", "runs": keys[:2]}).json()
    assert answer == {"action": "restore", "done": keys[:2], "refused": {}}
    send(client, "POST", "runs/actions", {"action": "tag", "runs": keys[:2], "tags": ["good"]})
    assert found(client, tag="good") == keys[1::-1]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "action"),
        ({"action": "pin"}, "runs"),
        ({"action": "pin", "runs": ["x"]}, "runs"),
        ({"action": "tag", "runs": [1]}, "tags"),
        ({"action": "tag", "runs": [1], "tags": {"a": 1}}, "tags"),
        ({"action": "pin", "runs": [1], "force": True}, "force"),
    ],
)
def test_it_names_what_is_wrong_with_an_action(client: Client, body: Any, field: str) -> None:
    make_run()
    response = send(client, "POST", "runs/actions", body)
    assert response.status_code == 422
    assert list(response.json()["error"]["fields"]) == [field]
    assert not Run.objects.filter(pinned=True).exists()
