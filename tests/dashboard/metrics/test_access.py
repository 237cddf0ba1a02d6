"""Who may read /metrics: the site's admins, and addresses that the settings name. Nobody else, by no detour."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest
from django.conf import settings as real
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from environs import EnvError

from dashboard.accounts import put_into_role
from dashboard.metrics import access
from dashboard.models import ApiToken
from dashboard.settings import _networks
from tests.world import make_user
from tuning.models import Project

pytestmark = pytest.mark.django_db
HOME = ip_network("127.0.0.0/8")


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_confirmed", {})


@pytest.fixture
def token() -> str:
    return ApiToken.issue(make_user("admin"), scope="read")


def ask(authorization: str | None = None, client: Client | None = None, **values: Any) -> int:
    headers = {"authorization": authorization} if authorization else {}
    return int((client or Client()).get("/metrics", headers=headers | values.pop("headers", {}), **values).status_code)


def test_it_answers_an_admins_token(token: str) -> None:
    answer = Client().get("/metrics", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert answer.headers["Cache-Control"] == "no-store"


def test_it_answers_a_signed_in_admin(client: Client) -> None:
    client.force_login(make_user("admin"))
    assert ask(client=client) == 200


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_it_refuses_who_has_a_role_in_a_project_only(client: Client, role: str) -> None:
    user = User.objects.create_user("ada")
    put_into_role(user, role, Project.objects.default())
    client.force_login(user)
    assert ask(client=client) == 401
    assert ask(f"Bearer {ApiToken.issue(user)}") == 401


def test_it_refuses_a_projects_token_of_an_admin() -> None:
    assert ask(f"Bearer {ApiToken.issue(make_user('admin'), project=Project.objects.default())}") == 401


@pytest.mark.parametrize("authorization", [None, "Bearer", "Bearer ", "Bearer tb_wrong", "Basic dGI6dGI=", "tb_wrong"])
def test_it_refuses_strangers_and_says_what_to_send(authorization: str | None) -> None:
    answer = Client().get("/metrics", headers={"authorization": authorization} if authorization else {})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert b"tuneboard_" not in answer.content


def test_it_refuses_a_token_in_the_address(token: str) -> None:
    assert Client().get(f"/metrics?token={token}&access_token={token}").status_code == 401


@pytest.mark.parametrize("how", ["without a role", "deactivated"])
def test_it_refuses_the_token_of_somebody_who_may_not_look(token: str, how: str) -> None:
    user = User.objects.get()
    if how == "deactivated":
        User.objects.update(is_active=False)
    else:
        user.groups.clear()
    assert ask(f"Bearer {token}") == 401


def test_it_answers_listed_addresses_without_a_token(settings: Any) -> None:
    settings.METRICS_FROM = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]
    for address in ("10.1.2.3", "fd12::1", "::ffff:10.1.2.3"):
        assert ask(REMOTE_ADDR=address) == 200, address
    for address in ("10.2.0.1", "::ffff:10.2.0.1", "fe80::1", "127.0.0.1", "", "unix:", "10.1.2.3, 10.2.0.1"):
        assert ask(REMOTE_ADDR=address) == 401, address


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Proto"])
def test_an_address_counts_only_without_a_proxy(settings: Any, header: str, token: str) -> None:
    settings.METRICS_FROM = [HOME]
    assert ask(REMOTE_ADDR="127.0.0.1", headers={header: "127.0.0.1"}) == 401
    assert ask(f"Bearer {token}", REMOTE_ADDR="127.0.0.1", headers={header: "127.0.0.1"}) == 200


def test_a_header_cannot_pretend_an_address(settings: Any) -> None:
    settings.METRICS_FROM = [ip_network("10.0.0.5")]
    for header in ("X-Forwarded-For", "Remote-Addr", "X-Real-IP", "Client-IP"):
        assert ask(REMOTE_ADDR="192.0.2.9", headers={header: "10.0.0.5"}) == 401


def test_no_address_is_listed_by_default() -> None:
    assert real.METRICS_FROM == []


def test_only_reading_is_possible(settings: Any) -> None:
    settings.METRICS_FROM = [HOME]
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        assert Client(enforce_csrf_checks=True).generic(method, "/metrics").status_code == 405


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("10.0.0.1/24", "has host bits set"),
        ("prometheus.example", "does not appear to be"),
        ("0.0.0.0/0", "is everybody"),
        ("::/0", "is everybody"),
        ("", "does not appear to be"),
    ],
)
def test_a_bad_address_is_an_error_at_start(value: str, words: str) -> None:
    with pytest.raises(EnvError, match=words) as refused:
        _networks("TUNEBOARD_METRICS_FROM", ["10.0.0.5", value])
    assert "TUNEBOARD_METRICS_FROM" in str(refused.value)


class TestWhileTheDatabaseIsAway:
    @pytest.fixture
    def outage(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        def begin() -> None:
            def away(*_: Any) -> None:
                raise OperationalError("could not connect")

            monkeypatch.setattr(access, "user_of", away)

        return begin

    def test_it_believes_a_token_that_was_confirmed_before(self, token: str, outage: Any) -> None:
        assert ask(f"Bearer {token}") == 200
        outage()
        assert ask(f"Bearer {token}") == 200
        for other in ("Bearer tb_other", f"Basic {token}", "Bearer ", None):
            assert ask(other) == 401

    def test_it_believes_no_token_for_ever(self, token: str, outage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(access, "TRUSTED_S", -1.0)
        assert ask(f"Bearer {token}") == 200
        outage()
        assert ask(f"Bearer {token}") == 401

    def test_it_believes_no_token_that_was_refused_since(self, token: str, outage: Any) -> None:
        assert ask(f"Bearer {token}") == 200
        User.objects.update(is_active=False)
        assert ask(f"Bearer {token}") == 401
        outage()
        assert ask(f"Bearer {token}") == 401

    def test_a_session_confirms_nothing_else_that_came_with_it(self, client: Client, outage: Any) -> None:
        client.force_login(make_user("admin"))
        assert ask("Basic Zm9v", client) == 200
        outage()
        assert ask("Basic Zm9v") == 401
