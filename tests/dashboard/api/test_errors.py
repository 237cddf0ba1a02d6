"""All errors under /api/ have one shape and leak nothing internal."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client

from tests.world import make_run, make_user
from tuning.models import Run

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def client() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(make_user("operator"))
    return client


def assert_error(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response.headers["Content-Type"] == JSON
    assert int(response.headers["Content-Length"]) == len(response.content)
    body: dict[str, dict[str, Any]] = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() <= {"code", "message", "fields"}
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    return body["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"mlp"',
        b"null",
        b"{'network': 1}",
        b'{"trials": NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"network=mlp",
    ],
)
def test_the_body_must_be_a_json_object(client: Client, body: bytes) -> None:
    error = assert_error(client.post("/api/v1/runs", body, content_type=JSON), 400, "bad_request")
    assert "JSON object" in error["message"]
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""]
)
def test_the_content_type_must_be_json(client: Client, kind: str) -> None:
    error = assert_error(
        client.post("/api/v1/runs", b'{"network": "mlp"}', content_type=kind), 415, "unsupported_media_type"
    )
    assert "Content-Type: application/json" in error["message"]


def test_it_takes_json_with_a_charset(client: Client) -> None:
    response = client.post("/api/v1/runs", b'{"network": "nope"}', content_type="application/json; charset=utf-8")
    assert_error(response, 422, "invalid")


def test_it_requires_signing_in() -> None:
    response = Client().get("/api/v1/runs")
    assert_error(response, 401, "unauthorized")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_it_says_what_the_role_does_not_allow(client: Client) -> None:
    client.force_login(make_user("viewer"))
    error = assert_error(client.post(f"/api/v1/runs/{make_run().pk}/stop"), 403, "forbidden")
    assert "stop runs" in error["message"]


@pytest.mark.parametrize("path", ["/api/", "/api/v1/nothing", "/api/v1/runs/", "/api/v1/runs/x", "/api/v2/runs"])
def test_404_is_json(client: Client, path: str) -> None:
    assert_error(client.get(path), 404, "not_found")


def test_it_names_the_methods_that_are_allowed(client: Client) -> None:
    response = client.delete("/api/v1/runs")
    assert_error(response, 405, "method_not_allowed")
    assert set(response.headers["Allow"].replace(" ", "").split(",")) == {"GET", "POST"}


def test_it_refuses_a_body_that_is_too_large(client: Client) -> None:
    body = b'{"name": "' + b"x" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE + b'"}'
    error = assert_error(client.post("/api/v1/runs", body, content_type=JSON), 413, "too_large")
    assert str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE) in error["message"]


def test_it_refuses_an_unknown_host(client: Client) -> None:
    assert_error(client.get("/api/v1/runs", headers={"host": "evil.example"}), 400, "bad_request")


def test_internal_errors_leak_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("the secret")

    monkeypatch.setattr("dashboard.api.runs.curves", fails)
    response = client.get(f"/api/v1/runs/{make_run().pk}/curves")
    assert_error(response, 500, "server_error")
    assert b"secret" not in response.content
    assert b"Traceback" not in response.content


def test_it_reports_that_the_database_is_down(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any) -> HttpResponse:
        raise OperationalError("could not connect to server at 10.0.0.7")

    run = make_run()
    monkeypatch.setattr("dashboard.api.runs.curves", unreachable)
    response = client.get(f"/api/v1/runs/{run.pk}/curves")
    error = assert_error(response, 503, "unavailable")
    assert response.headers["Retry-After"] == "5"
    assert "10.0.0.7" not in error["message"]
