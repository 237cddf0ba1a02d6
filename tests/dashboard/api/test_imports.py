"""Importing logs by the API, and the pages of imports."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard.models import ApiToken
from tests.tuning.work.test_importing import ansor
from tests.world import make_user
from tuning.models import Import, Run
from tuning.queue import jobs
from tuning.work import importing

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def enqueued(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was enqueued."""
    rows: list[Any] = []
    settings.VAR = tmp_path
    monkeypatch.setattr(jobs, "enqueue", rows.append)
    return rows


def log(*lines: str, name: str = "log.json") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, "".join(f"{line}\n" for line in lines).encode())


def client_of(role: str = "operator", name: str | None = None) -> Client:
    return Client(headers={"authorization": f"Bearer {ApiToken.issue(make_user(role, name))}"})


def page_of(role: str = "operator") -> Client:
    client = Client()
    client.force_login(make_user(role, f"page-{role}"))
    return client


def carried_out(source: Import) -> None:
    assert source.claim()
    importing.carry_out(source, importing.uploaded(source), threading.Event())


def test_files_become_runs_by_a_job(enqueued: list[Any]) -> None:
    client = client_of()
    answer = client.post("/api/v1/imports", {"files": log(ansor(1e-3), "{"), "network": "mine", "name": "old days"})
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["files"][0]["name"]) == ("queued", "log.json")
    (source,) = enqueued
    carried_out(source)
    shown = client.get(f"/api/v1/imports/{source.pk}").json()
    assert (shown["status"], shown["records"], shown["bad_lines"]) == ("finished", 1, 1)
    assert shown["bytes_read"] == shown["bytes_total"] > 0
    run = client.get(f"/api/v1/runs/{shown['results'][0]['run']}").json()
    assert (run["name"], run["network"], run["origin"], run["bad_lines"]) == ("old days", "mine", "imported", 1)
    assert (run["trials_budget"], run["tasks"][0]["weight"], run["tasks"][0]["flop"]) == (None, None, None)
    (bad,) = client.get(f"/api/v1/imports/{source.pk}/bad-lines").json()["items"]
    assert (bad["file"], bad["line"]) == ("log.json", 2)
    assert not source.uploads.exists()


def test_a_version_that_is_not_known_is_read_and_remarked(enqueued: list[Any]) -> None:
    client = client_of()
    client.post("/api/v1/imports", {"files": log(ansor(1e-3).replace("v0.6", "v0.9"))})
    carried_out(enqueued[0])
    shown = client.get(f"/api/v1/imports/{enqueued[0].pk}").json()
    (remark,) = shown["remarks"]
    assert (remark["file"], remark["line"]) == ("log.json", 1)
    assert "v0.9" in remark["text"]
    assert shown["records"] == 1


def test_paths_tell_which_files_belong_together(enqueued: list[Any]) -> None:
    files = [log(ansor(1e-3), name="log.json"), log(ansor(2e-3), name="log.json")]
    answer = client_of().post(
        "/api/v1/imports", {"files": files, "paths": json.dumps(["a/log.json", "../../b/log.json"])}
    )
    assert [file["name"] for file in answer.json()["files"]] == ["a/log.json", "b/log.json"]
    carried_out(enqueued[0])
    assert Run.objects.count() == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("weights", '{"a": -1}'), ("weights", "{"), ("name", "x" * 201), ("paths", "[]"), ("again", "?")],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(field: str, value: str, tmp_path: Path) -> None:
    answer = client_of().post("/api/v1/imports", {"files": log(ansor(1e-3)), field: value})
    assert answer.status_code == 422
    assert list(answer.json()["error"]["fields"]) == [field]
    assert not Import.objects.exists()
    assert not list((tmp_path / "imports").glob("*"))


def test_a_user_has_a_few_imports_at_once(settings: Any) -> None:
    settings.IMPORTS_PER_USER = 1
    client = client_of()
    assert client.post("/api/v1/imports", {"files": log(ansor(1e-3))}).status_code == 202
    assert client.post("/api/v1/imports", {"files": log(ansor(1e-3))}).status_code == 429
    assert client_of(name="another").post("/api/v1/imports", {"files": log(ansor(1e-3))}).status_code == 202


def test_a_queued_import_is_cancelled_at_once_by_who_started_it(enqueued: list[Any]) -> None:
    client = client_of()
    key = client.post("/api/v1/imports", {"files": log(ansor(1e-3))}).json()["id"]
    assert client_of(name="another").post(f"/api/v1/imports/{key}/cancel").status_code == 403
    assert client.post(f"/api/v1/imports/{key}/cancel").json()["status"] == "cancelled"
    assert not enqueued[0].uploads.exists()
    assert client.post(f"/api/v1/imports/{key}/cancel").status_code == 409


def test_the_page_shows_runs_bad_lines_and_what_was_not_read(enqueued: list[Any]) -> None:
    client = page_of()
    files = [log(ansor(1e-3), '{"i": ['), log("nothing", name="notes.txt")]
    client.post("/api/v1/imports", {"files": files})
    path = f"/imports/{enqueued[0].pk}/"
    waiting = client.get(path).content.decode()
    assert "Waiting for the worker" in waiting
    assert 'hx-trigger="every 1s"' in waiting
    carried_out(enqueued[0])
    page = client.get(path).content.decode()
    run = Run.objects.get()
    assert f'href="/runs/{run.pk}/"' in page
    assert "notes.txt" in page
    assert "hx-trigger" not in page
    shown = client.get(f"/runs/{run.pk}/").content.decode()
    assert "1 line of its log couldn’t be read." in shown
    assert f'href="/imports/{enqueued[0].pk}/#bad-lines"' in shown
    assert "network not recorded" in shown
    assert "device not recorded" in shown


def test_the_form_is_for_operators() -> None:
    assert page_of("viewer").get("/imports/new/").status_code == 403
    assert 'data-role="import"' in page_of().get("/imports/new/").content.decode()


@pytest.mark.parametrize("action", ["resume", "extend"])
def test_an_imported_run_cannot_go_on(enqueued: list[Any], action: str) -> None:
    client = client_of()
    client.post("/api/v1/imports", {"files": log(ansor(None))})
    carried_out(enqueued[0])
    answer = client.post(f"/api/v1/runs/{Run.objects.get().pk}/{action}", {"trials": 8}, "application/json")
    assert answer.status_code == 409
    assert "imported, not launched here" in answer.json()["error"]["message"]
