"""A token's scope limits what its owner's role allows, wherever permissions are asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dashboard.accounts import CHANGE, DELETE_NETWORK, LAUNCH, MANAGE_WEBHOOKS, ROLES, UPLOAD, VIEW
from dashboard.http.gate import _limit
from dashboard.models import ApiToken
from tests.world import make_run, make_user

pytestmark = pytest.mark.django_db
ASKED = (VIEW, LAUNCH, CHANGE, UPLOAD, DELETE_NETWORK, MANAGE_WEBHOOKS, "auth.view_user", "auth.change_user")
OPERATORS = {VIEW, LAUNCH, CHANGE, UPLOAD}


def bearer(user: User, **values: Any) -> User:
    found = ApiToken.objects.owner_of(ApiToken.issue(user, **values))
    assert found
    return found


def held(user: User) -> set[str]:
    return {permission for permission in ASKED if user.has_perm(permission)}


@pytest.mark.parametrize(
    ("role", "scope", "allowed"),
    [
        ("viewer", "read", {VIEW}),
        ("viewer", "launch", {VIEW}),
        ("viewer", "admin", {VIEW}),
        ("operator", "read", {VIEW}),
        ("operator", "launch", OPERATORS),
        ("operator", "admin", OPERATORS),
        ("admin", "read", {VIEW, "auth.view_user"}),
        ("admin", "launch", {*OPERATORS, "auth.view_user"}),
        ("admin", "admin", set(ASKED)),
        ("superuser", "read", {VIEW, "auth.view_user"}),
        ("superuser", "launch", {*OPERATORS, "auth.view_user"}),
        ("superuser", "admin", set(ASKED)),
    ],
)
def test_the_scope_caps_the_role_and_adds_nothing(role: str, scope: str, allowed: set[str]) -> None:
    user = User.objects.create_superuser("root") if role == "superuser" else make_user(role)
    caught = bearer(user, scope=scope)
    assert held(caught) == allowed
    assert caught.get_all_permissions() >= allowed
    assert not (set(ASKED) - allowed) & caught.get_all_permissions()
    assert caught.has_perms(sorted(allowed))


def test_the_owner_keeps_every_permission_in_a_session() -> None:
    user = make_user("admin")
    bearer(user, scope="read")
    assert held(User.objects.get(pk=user.pk)) == set(ASKED)


def test_a_permission_given_to_the_user_directly_is_capped_too() -> None:
    from django.contrib.auth.models import Permission

    user = make_user("viewer")
    user.user_permissions.add(Permission.objects.get(codename="add_run"))
    assert held(bearer(user, scope="read")) == {VIEW}
    assert held(bearer(user, scope="launch")) == {VIEW, LAUNCH}


@pytest.mark.parametrize("role", ROLES)
def test_by_default_a_token_allows_what_the_role_allows(role: str) -> None:
    user = make_user(role)
    assert held(bearer(user)) == held(user)


def by_token(text: str, method: str, path: str) -> Any:
    return Client().generic(method, path, "{}", "application/json", headers={"authorization": f"Bearer {text}"})


def test_the_api_says_that_it_was_the_scope() -> None:
    text = ApiToken.issue(make_user("admin"), scope="read")
    assert by_token(text, "GET", "/api/v1/runs").status_code == 200
    refused = by_token(text, "POST", f"/api/v1/runs/{make_run().pk}/stop")
    assert refused.status_code == 403
    assert refused.json()["error"]["message"].startswith("This token's scope, read, doesn't allow you to stop")
    viewer = ApiToken.issue(make_user("viewer"), scope="launch")
    assert "Your role" in by_token(viewer, "POST", f"/api/v1/runs/{make_run().pk}/stop").json()["error"]["message"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("scope", ApiToken.Scope.values)
def test_a_large_body_is_received_only_from_tokens_that_may_upload(scope: str) -> None:
    text = ApiToken.issue(make_user("admin"), scope=scope)
    headers = [(b"authorization", f"Bearer {text}".encode())]
    limit, _user = async_to_sync(_limit)({"method": "POST", "path": "/api/v1/networks", "headers": headers})
    assert (limit > 1 << 20) == (scope != "read")


def test_an_expired_token_is_refused() -> None:
    user = make_user("viewer")
    ended, ending = timezone.now() - timedelta(seconds=1), timezone.now() + timedelta(hours=1)
    assert by_token(ApiToken.issue(user, expires_at=ended), "GET", "/api/v1/runs").status_code == 401
    assert by_token(ApiToken.issue(user, expires_at=ending), "GET", "/api/v1/runs").status_code == 200


def test_a_revoked_token_is_refused_at_once() -> None:
    text = ApiToken.issue(make_user("viewer"))
    assert by_token(text, "GET", "/api/v1/runs").status_code == 200
    ApiToken.objects.all().delete()
    assert by_token(text, "GET", "/api/v1/runs").status_code == 401
