"""API authentication by session or token."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dashboard.models import SEEN_EVERY, ApiToken
from tests.world import make_run, make_user

pytestmark = pytest.mark.django_db


def by_token(token: str, path: str = "/api/v1/runs", method: str = "get") -> Any:
    client = Client(enforce_csrf_checks=True)
    return getattr(client, method)(path, headers={"authorization": f"Bearer {token}"})


def test_it_accepts_a_token() -> None:
    assert by_token(ApiToken.issue(make_user("viewer"))).status_code == 200


def test_a_token_needs_no_csrf_token() -> None:
    user = make_user("operator")
    run = make_run(created_by=user)
    assert by_token(ApiToken.issue(user), f"/api/v1/runs/{run.pk}/stop", "post").status_code == 200


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer tb_wrong", "Bearer é", "bearer\ttb_x", "Basic dTpw", "tb_x"]
)
def test_it_refuses_invalid_tokens(header: str) -> None:
    response = Client().get("/api/v1/runs", headers={"authorization": header})
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "unauthorized"


def test_an_invalid_token_is_refused_despite_a_session() -> None:
    client = Client()
    client.force_login(make_user("admin"))
    assert client.get("/api/v1/runs", headers={"authorization": "Bearer tb_expired"}).status_code == 401


def test_the_token_takes_precedence_over_the_session() -> None:
    client = Client()
    client.force_login(make_user("admin"))
    token = ApiToken.issue(make_user("viewer"))
    path = f"/api/v1/runs/{make_run().pk}/stop"
    assert client.post(path, headers={"authorization": f"Bearer {token}"}).status_code == 403


def test_it_refuses_a_deactivated_user() -> None:
    user = make_user("admin")
    token = ApiToken.issue(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert by_token(token).status_code == 401


def test_tokens_are_for_the_api_only() -> None:
    token = ApiToken.issue(make_user("admin"))
    assert by_token(token, "/runs/").status_code == 302


def test_it_shows_nothing_to_users_without_a_role() -> None:
    stranger = User.objects.create_user("stranger")
    assert by_token(ApiToken.issue(stranger)).status_code == 403
    client = Client()
    client.force_login(stranger)
    for path in ("/runs/", "/", "/api/v1/docs", "/api/v1/openapi.json", "/api/v1/networks"):
        assert client.get(path).status_code == 403, path


def test_a_session_needs_a_csrf_token() -> None:
    client = Client(enforce_csrf_checks=True)
    user = make_user("operator")
    client.force_login(user)
    path = f"/api/v1/runs/{make_run(created_by=user).pk}/stop"
    refused = client.post(path)
    assert refused.status_code == 403
    assert "CSRF" in refused.json()["error"]["message"]
    client.cookies["tuneboard_csrf"] = "x" * 32
    assert client.post(path, headers={"x-csrftoken": "x" * 32}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "http://testserver:8080", "null"])
def test_it_refuses_requests_from_other_sites(origin: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    client.cookies["tuneboard_csrf"] = "x" * 32
    path = f"/api/v1/runs/{make_run().pk}/stop"
    assert client.post(path, headers={"x-csrftoken": "x" * 32, "origin": origin}).status_code == 403


def test_it_stores_only_the_digest() -> None:
    text = ApiToken.issue(make_user("viewer"))
    assert text.startswith("tb_")
    assert len(text) == len("tb_") + 43, "32 random bytes in base64"
    stored = ApiToken.objects.values().get()
    assert text not in map(str, stored.values())
    assert text.removeprefix("tb_") not in map(str, stored.values())


def test_it_records_the_last_use() -> None:
    text = ApiToken.issue(make_user("viewer"))
    assert ApiToken.objects.get().last_used_at is None
    by_token(text)
    first = ApiToken.objects.get().last_used_at
    by_token(text)
    assert ApiToken.objects.get().last_used_at == first
    long_ago = timezone.now() - SEEN_EVERY - timedelta(seconds=1)
    ApiToken.objects.update(last_used_at=long_ago)
    by_token(text)
    last = ApiToken.objects.get().last_used_at
    assert last is not None
    assert last > long_ago
