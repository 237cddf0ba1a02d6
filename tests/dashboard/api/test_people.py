"""People and tokens through the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import ApiToken
from tests.world import make_user

pytestmark = pytest.mark.django_db


class Api:
    """Calls with a token, or in the session of a client."""

    def __init__(self, user: User, **token: Any) -> None:
        self.headers = {"authorization": f"Bearer {ApiToken.issue(user, **token)}"}

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        return Client().generic(
            method,
            f"/api/v1/{path}",
            "" if body is None else json.dumps(body),
            "application/json",
            headers=self.headers,
        )


def in_session(user: User, method: str, path: str, body: Any = None) -> Any:
    client = Client()
    client.force_login(user)
    return client.generic(method, f"/api/v1/{path}", "" if body is None else json.dumps(body), "application/json")


def test_an_admin_manages_people() -> None:
    api = Api(make_user("admin", "ada"))
    invited = api("POST", "people", {"name": "grace", "role": "viewer"})
    assert invited.status_code == 201
    person = invited.json()["person"]
    assert (person["name"], person["role"], person["active"], person["seen_at"]) == ("grace", "viewer", True, None)
    assert Client().post(invited.json()["login_url"]).status_code == 302
    again = api("POST", f"people/{person['id']}/login-url").json()
    assert Client().post(again["login_url"]).status_code == 302
    assert api("PATCH", f"people/{person['id']}", {"role": "operator"}).json()["role"] == "operator"
    assert api("POST", f"people/{person['id']}/deactivate").json()["active"] is False
    assert api("POST", f"people/{person['id']}/login-url").status_code == 409
    assert api("POST", f"people/{person['id']}/reactivate").json()["active"] is True
    assert [one["name"] for one in api("GET", "people").json()["items"]] == ["ada", "grace"]


def test_errors_have_the_usual_shape() -> None:
    ada = make_user("admin", "ada")
    api = Api(ada)
    assert api("POST", "people", {"name": "ada", "role": "root"}).json()["error"]["fields"].keys() == {"name", "role"}
    assert api("POST", "people", {"name": "x", "role": "viewer", "rolle": 1}).json()["error"]["fields"].keys() == {
        "rolle"
    }
    assert api("POST", "people", []).status_code == 400
    assert api("PATCH", f"people/{ada.pk}", {"role": "viewer"}).status_code == 409
    assert api("POST", f"people/{ada.pk}/deactivate").json()["error"]["code"] == "conflict"
    assert api("POST", "people/999/deactivate").status_code == 404


@pytest.mark.parametrize("scope", ["read", "launch"])
def test_a_weaker_token_of_an_admin_only_looks(scope: str) -> None:
    api = Api(make_user("admin"), scope=scope)
    assert api("GET", "people").status_code == 200
    assert api("POST", "people", {"name": "grace", "role": "admin"}).status_code == 403
    assert not User.objects.filter(username="grace").exists()


def test_operators_do_not_see_people() -> None:
    assert Api(make_user("operator"))("GET", "people").status_code == 403


def test_tokens_are_made_and_revoked_in_a_session() -> None:
    user = make_user("viewer")
    made = in_session(user, "POST", "tokens", {"name": "nightly", "scope": "read", "days": 7})
    assert made.status_code == 201
    token = made.json()
    assert ApiToken.objects.owner_of(token["token"]) == user
    (listed,) = in_session(user, "GET", "tokens").json()["items"]
    assert listed == {key: value for key, value in token.items() if key not in ("token", "last_used_at")} | {
        "last_used_at": listed["last_used_at"]
    }
    assert in_session(make_user("admin"), "DELETE", f"tokens/{token['id']}").status_code == 404
    assert in_session(user, "DELETE", f"tokens/{token['id']}").status_code == 204
    assert ApiToken.objects.owner_of(token["token"]) is None


def test_a_token_cannot_make_or_revoke_tokens() -> None:
    user = make_user("admin")
    api = Api(user)
    assert len(api("GET", "tokens").json()["items"]) == 1
    refused = api("POST", "tokens", {"name": "forever", "scope": "admin"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert api("DELETE", f"tokens/{user.api_tokens.get().pk}").status_code == 403
    assert user.api_tokens.count() == 1


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"name", "scope"}),
        ({"name": "x" * 101, "scope": "read"}, {"name"}),
        ({"name": "line\nbreak", "scope": "read"}, {"name"}),
        ({"name": 7, "scope": ["read"], "days": {}}, {"name", "scope", "days"}),
        ({"name": "x", "scope": "read", "days": 0}, {"days"}),
        ({"name": "x", "scope": "read", "days": True}, {"days"}),
        ({"name": "x", "scope": "read", "days": 1.5}, {"days"}),
        ({"name": "x", "scope": "read", "days": "9" * 5000}, {"days"}),
        ({"name": "x", "scope": "read", "expires": 1}, {"expires"}),
    ],
)
def test_it_names_every_field_at_fault(body: Any, fields: set[str]) -> None:
    refused = in_session(make_user("viewer"), "POST", "tokens", body)
    assert refused.status_code == 422
    assert refused.json()["error"]["fields"].keys() == fields
    assert not ApiToken.objects.exists()


def test_there_is_a_limit_to_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.people.tokens.MOST", 1)
    user = make_user("viewer")
    assert in_session(user, "POST", "tokens", {"name": "x", "scope": "read"}).status_code == 201
    assert (
        "tokens already"
        in in_session(user, "POST", "tokens", {"name": "x", "scope": "read"}).json()["error"]["fields"]["name"]
    )
