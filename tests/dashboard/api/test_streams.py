"""Streams by HTTP: who may, how much, and that the file which sends them can be fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.accounts import put_into_role
from dashboard.api.incoming.streams import SCRIPT
from dashboard.models import ApiToken
from tests.world import make_user, measured_run
from tuning.models import AuditEntry, Project, Run

pytestmark = pytest.mark.django_db
OPENING = {"stream": "mine", "session": "a", "engine": "autotvm", "target": "llvm"}
JSON = "application/json"


@pytest.fixture(autouse=True)
def var(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path


def by_token(role: str = "operator", scope: str = "launch", project: Project | None = None) -> Client:
    user = make_user(role)
    if project:
        put_into_role(user, role, project)
    _, text = ApiToken.make(user, scope=scope, project=project)
    return Client(headers={"authorization": f"Bearer {text}"})


def test_a_token_to_launch_is_enough() -> None:
    client = by_token()
    begun = client.post("/api/v1/streams", OPENING, JSON).json()
    body = {"session": "a", "tasks": [{"key": "t"}], "trials": [{"number": 1, "task": "t", "costs_s": [1e-3]}]}
    sent = client.post(f"/api/v1/streams/{begun['run']}/trials", body, JSON)
    assert sent.json() == {"run": begun["run"], "status": "running", "have": 1, "stop": False}
    ended = client.post(f"/api/v1/streams/{begun['run']}/end", {"session": "a"}, JSON)
    assert ended.json()["status"] == "finished"
    entries = AuditEntry.objects.order_by("pk").values_list("action", "actor", "via", "object_id")
    assert list(entries) == [
        ("stream.start", "a-operator", "api", begun["run"]),
        ("stream.end", "a-operator", "api", begun["run"]),
    ]


@pytest.mark.parametrize(("role", "scope"), [("operator", "read"), ("viewer", "launch")])
def test_a_token_to_look_is_not(role: str, scope: str) -> None:
    client = by_token(role, scope)
    assert client.post("/api/v1/streams", OPENING, JSON).status_code == 403
    assert not Run.objects.exists()
    assert client.get("/api/v1/tuneboard.py").status_code == 200


def test_a_projects_token_streams_into_its_project_only() -> None:
    project = Project.objects.create(name="vision")
    client = by_token(project=project)
    begun = client.post("/api/v1/streams", OPENING, JSON)
    assert Run.objects.get(pk=begun.json()["run"]).project == project
    other = client.post("/api/v1/streams", {**OPENING, "project": Project.objects.default().name}, JSON)
    assert set(other.json()["error"]["fields"]) == {"project"}


def test_the_same_name_in_another_project_is_another_run() -> None:
    client = by_token("admin")
    project = Project.objects.create(name="vision")
    runs = {
        client.post("/api/v1/streams", {**OPENING, "project": name}, JSON).json()["run"]
        for name in (project.name, Project.objects.default().name)
    }
    assert len(runs) == 2


def test_a_user_has_so_many_live_streams(settings: Any) -> None:
    settings.STREAMS_PER_USER = 1
    client = by_token()
    first = client.post("/api/v1/streams", OPENING, JSON).json()["run"]
    refused = client.post("/api/v1/streams", {**OPENING, "stream": "second"}, JSON)
    assert refused.status_code == 429
    assert "1 live stream," in refused.json()["error"]["message"]
    assert client.post("/api/v1/streams", {**OPENING, "session": "b"}, JSON).json()["run"] == first
    assert by_token("admin").post("/api/v1/streams", {**OPENING, "stream": "other"}, JSON).status_code == 200
    Run.objects.filter(pk=first).update(status="interrupted")
    second = client.post("/api/v1/streams", {**OPENING, "stream": "second"}, JSON)
    assert second.status_code == 200
    body = {"session": "a", "tasks": [{"key": "t"}], "trials": [{"number": 1, "task": "t", "costs_s": [1e-3]}]}
    assert client.post(f"/api/v1/streams/{first}/trials", body, JSON).status_code == 429
    client.post(f"/api/v1/streams/{second.json()['run']}/end", {"session": "a"}, JSON)
    assert client.post(f"/api/v1/streams/{first}/trials", body, JSON).json()["have"] == 1, "it was only kept waiting"


def test_a_message_that_is_too_large_is_refused() -> None:
    client = by_token()
    run = client.post("/api/v1/streams", OPENING, JSON).json()["run"]
    many = [{"number": number, "task": "t", "costs_s": [1e-3]} for number in range(1, 1002)]
    refused = client.post(f"/api/v1/streams/{run}/trials", {"session": "a", "trials": many}, JSON)
    assert refused.status_code == 422
    assert "trials" in refused.json()["error"]["fields"]
    long = [{"number": 1, "task": "t", "costs_s": [1e-3], "record": "x" * (1 << 20)}]
    body = {"session": "a", "trials": long}
    assert client.post(f"/api/v1/streams/{run}/trials", body, JSON).status_code == 413


def test_a_run_that_was_launched_here_takes_none() -> None:
    client = by_token("admin")
    refused = client.post(f"/api/v1/streams/{measured_run().pk}/trials", {"session": "a"}, JSON)
    assert (refused.status_code, refused.json()["error"]["message"]) == (409, "The run isn't streamed by a script.")


def test_the_file_is_served_as_it_is() -> None:
    response = by_token("viewer", "read").get("/api/v1/tuneboard.py")
    assert response.content == SCRIPT.read_bytes()
    assert response.headers["Content-Disposition"] == 'attachment; filename="tuneboard.py"'
