"""Every route refuses anonymous users, and none lets viewers change anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.http.response import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.api import api
from dashboard.asgi import sockets
from dashboard.models import ApiToken
from tests.sockets import Socket
from tests.world import make_user, measured_run

pytestmark = pytest.mark.one_database

PUBLIC = {
    "/sign-in/": "shows the form",
    "/login/": "refuses what isn't a valid one-time URL",
    "/sign-out/": "signs nobody out",
    "/oidc/start/": "leads to the OpenID provider, if the site uses one",
    "/oidc/callback/": "refuses what isn't an answer to a sign-in that this browser began",
    "/badges/1.svg": "shows the badge whose key is in the address; nobody guesses one",
    "/healthz": "only says whether the process serves",
}
"""Paths that answer anybody, and what they do. A new line here needs one in docs/design.md."""
OWN = {
    "/account/password/": "their own password",
    "/account/tokens/": "their own tokens",
    "/account/tokens/1/revoke/": "their own tokens",
    "/account/sign-out/": "their own sessions",
}
"""Paths where even viewers change something, and what."""
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
METHODS = ("GET", "HEAD", "OPTIONS", *UNSAFE)


def routes(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for entry in resolver.url_patterns:
        path = before + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield "/" + path
        else:
            yield from routes(entry, path)


def filled(route: str) -> str:
    """The route with 1 for each number or slug, and for all of the API, and x for other parameters."""
    assert not re.search(r"\(\?P|\\", route), f"{route}: this test can't fill in regular expressions yet"
    return re.sub(r"<(\w+):\w+>", lambda kind: "1" if kind[1] in ("number", "slug") or "api/" in route else "x", route)


def every_path() -> list[str]:
    return sorted({filled(route) for route in routes(get_resolver())})


def every_operation() -> list[tuple[str, str]]:
    paths = api.get_openapi_schema()["paths"]
    return sorted((re.sub(r"{\w+}", "1", path), method.upper()) for path, ops in paths.items() for method in ops)


def ask(client: Client, method: str, path: str) -> Any:
    return client.generic(method, path, content_type="application/json")


def refused(response: HttpResponseBase) -> bool:
    if response.status_code == 302:
        return urlsplit(response.headers["Location"]).path == "/sign-in/"
    return response.status_code in (401, 403)


@pytest.mark.django_db
@pytest.mark.parametrize("path", [path for path in every_path() if path not in PUBLIC])
def test_it_refuses_strangers(path: str) -> None:
    measured_run(pk=1)
    for method in METHODS:
        response = ask(Client(), method, path)
        assert refused(response), f"{method} {path}: {response.status_code}"
        assert b"mlp" not in response.content


@pytest.mark.django_db
def test_it_knows_what_is_public() -> None:
    assert PUBLIC.keys() <= set(every_path())
    client = Client()
    assert client.get("/sign-in/").status_code == 200
    assert client.get("/login/").status_code == 403
    assert refused(client.post("/sign-out/"))
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.django_db
def test_it_finds_every_operation_of_the_api_among_the_routes() -> None:
    of_api = {path for path in every_path() if path.startswith("/api/v1/")}
    documents = {"/api/v1/", "/api/v1/docs", "/api/v1/openapi.json"}
    assert documents <= of_api
    assert {path for path, _ in every_operation()} == of_api - documents
    assert len(every_operation()) == 106


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "method"), every_operation())
def test_it_requires_a_session_or_a_token(path: str, method: str) -> None:
    measured_run(pk=1)
    response = ask(Client(), method, path)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "unauthorized"


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "method"), [operation for operation in every_operation() if operation[1] in UNSAFE])
def test_it_lets_viewers_change_nothing_through_the_api(path: str, method: str) -> None:
    run = measured_run(pk=1)
    token = ApiToken.issue(make_user("viewer"))
    response = Client().generic(method, path, "{}", "application/json", headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "forbidden"
    run.refresh_from_db()
    assert run.status == "running"


ELSEWISE = {"/": (302,), "/metrics": (401,)}
"""The first only leads to the list; the second asks whoever may not read it for a token."""


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path",
    [path for path in every_path() if path not in PUBLIC and path not in OWN and not path.startswith("/api/")],
)
def test_it_lets_viewers_change_nothing_on_the_pages(path: str) -> None:
    run = measured_run(pk=1)
    client = Client()
    client.force_login(make_user("viewer"))
    for method in UNSAFE:
        response = ask(client, method, path)
        harmless = ELSEWISE.get(path, (403, 405))
        assert response.status_code in harmless, f"{method} {path}: {response.status_code}"
    run.refresh_from_db()
    assert run.status == "running"


@pytest.mark.django_db
@pytest.mark.parametrize("path", [path for path in every_path() if "/1" in path])
def test_it_never_breaks_whatever_the_number_in_the_path(path: str) -> None:
    client = Client()
    client.force_login(make_user("admin"))
    for number in ("0", "2", "9" * 40, "9" * 5000):
        response = client.get(path.replace("/1/", f"/{number}/").replace("/1", f"/{number}"))
        assert response.status_code < 500, path


@pytest.mark.django_db
@pytest.mark.parametrize("path", every_path())
def test_it_refuses_an_unknown_host(path: str) -> None:
    response = Client().get(path, headers={"host": "evil.example"})
    assert response.status_code == 400


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("route", [filled(f"/{entry.pattern}") for entry in sockets])
async def test_it_refuses_sockets_of_strangers(route: str) -> None:
    assert not await Socket(None, route).connect()


@pytest.mark.django_db
@pytest.mark.parametrize("path", [*every_path(), "/nothing", "/api/v1/nothing"])
@pytest.mark.parametrize("role", [None, "admin"])
def test_it_sends_safe_headers_with_every_answer(path: str, role: str | None) -> None:
    measured_run(pk=1)
    client = Client()
    if role:
        client.force_login(make_user(role))
    headers = client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["script-src"] == "'self'"
    assert policy["default-src"] == "'self'"
    assert policy["object-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    # What has an ETag is kept, and asked for each time.
    assert "no-store" in headers["Cache-Control"] or headers["Cache-Control"] == "private, no-cache"
    assert "camera=()" in headers["Permissions-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"


@pytest.mark.django_db
def test_it_sets_cookies_that_scripts_and_other_sites_cannot_use() -> None:
    make_user("viewer", "ada")
    client = Client()
    client.post("/sign-in/", {"username": "ada", "password": "correct horse"})
    session = client.cookies[settings.SESSION_COOKIE_NAME]
    assert session["httponly"]
    assert session["samesite"] == "Lax"
    assert client.cookies[settings.CSRF_COOKIE_NAME]["samesite"] == "Lax"
