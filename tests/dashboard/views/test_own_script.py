"""The page with the lines to add to a script of one's own, and its form to watch a file."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.views.runs.scripts import TUNERS
from tests.world import make_user
from tuning.actions import runs
from tuning.models import Run
from tuning.queue import jobs

pytestmark = pytest.mark.django_db
ARGS = [["TENSOR", [1, 8], "float32"], ["TENSOR", [4, 8], "float32"]]
CONFIG: dict[str, Any] = {"index": 0, "code_hash": None, "entity": []}
RECORD = {"input": ["llvm", "dense", ARGS, {}], "config": CONFIG, "result": [[1e-3], 0, 0.5, 1e9], "version": 0.2}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    rows: list[Any] = []
    monkeypatch.setattr(jobs, "enqueue", rows.append)
    return rows


def by(role: str) -> Client:
    client = Client()
    client.force_login(make_user(role))
    return client


def test_it_has_the_lines_with_the_sites_address() -> None:
    page = by("viewer").get("/networks/script/", headers={"host": "localhost:8000"}).content.decode()
    assert page.count("http://localhost:8000") == 4
    assert "/api/v1/tuneboard.py" in page
    assert page.count('data-role="copy"') == 4
    assert "Watch a file" not in page


@pytest.mark.parametrize("tuner", TUNERS, ids=lambda tuner: tuner[0])
def test_the_lines_are_python(tuner: tuple[str, str, str]) -> None:
    ast.parse(tuner[2].replace("…", "tasks=tasks"))


def test_a_file_of_an_allowed_folder_is_watched(settings: Any, tmp_path: Path, told: list[Any]) -> None:
    settings.WATCH_FOLDERS = [str(tmp_path)]
    log = tmp_path / "log.json"
    log.write_text(json.dumps(RECORD) + "\n")
    client = by("operator")
    assert "Watch a file" in client.get("/networks/script/").content.decode()
    response = client.post("/networks/script/watch/", {"path": str(log), "network": "mlp"})
    run = Run.objects.get()
    assert response.headers["Location"] == f"/runs/{run.pk}/"
    assert (run.origin, run.status, run.network_name) == ("watched", "queued", "mlp")
    assert told == [run]
    assert jobs._job_of(run)[1] == ["watch"]


def test_what_is_wrong_is_said_beside_the_field(settings: Any, tmp_path: Path, told: list[Any]) -> None:
    settings.WATCH_FOLDERS = [str(tmp_path)]
    (tmp_path / "empty.json").write_text("")
    client = by("operator")
    for path, message in (
        ("/etc/passwd", "below one of the allowed folders"),
        (str(tmp_path / "empty.json"), "no record yet"),
    ):
        response = client.post("/networks/script/watch/", {"path": path})
        assert response.status_code == 422
        assert message in response.content.decode()
    assert (Run.objects.count(), told) == (0, [])


def test_a_user_has_so_many_watched_files(settings: Any, tmp_path: Path, told: list[Any]) -> None:
    settings.WATCH_FOLDERS, settings.WATCHES_PER_USER = [str(tmp_path)], 1
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        path.write_text(json.dumps(RECORD) + "\n")
    client = by("operator")
    assert client.post("/networks/script/watch/", {"path": str(paths[0])}).status_code == 302
    refused = client.post("/networks/script/watch/", {"path": str(paths[1])})
    assert refused.status_code == 429
    page = refused.content.decode()
    assert "1 watched file," in page
    assert f'value="{paths[1]}"' in page, "what was entered stays in the form"
    assert by("admin").post("/networks/script/watch/", {"path": str(paths[1])}).status_code == 302
    runs.stop(told[0])
    (tmp_path / "c.json").write_text(json.dumps(RECORD) + "\n")
    assert client.post("/networks/script/watch/", {"path": str(tmp_path / "c.json")}).status_code == 302


def test_viewers_may_not() -> None:
    assert by("viewer").post("/networks/script/watch/", {"path": "/"}).status_code == 403
