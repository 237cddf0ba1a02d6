"""Tells the audit log who sends a request, and records sign-ins and what a role doesn't allow.

Importing this module is enough for sign-ins: the middleware does, and without it nobody signs in.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from tuning import audit
from tuning.audit import Actor, Thing, Via

NOT_ALLOWED = "The person's role doesn't allow this."
KIND_OF_PATH = {
    "runs": "run",
    "compilations": "compilation",
    "networks": "network",
    "extractions": "extraction",
    "imports": "import",
    "projects": "project",
    "webhooks": "message",
}
"""What a path is about, by its first part."""
API = "/api/v1/"
WAYS = {
    "dashboard.people.backends.Roles": "password",
    "dashboard.people.backends.LoginUrls": "login URL",
    "dashboard.people.single_sign_on.SingleSignOn": "single sign-on",
}
"""How people sign in, by the backend that lets them."""


class Audited(MiddlewareMixin):
    """Whatever the request does is recorded as done by its user. Must come after the middleware that finds the user."""

    def __call__(self, request: HttpRequest) -> Any:
        with audit.acting_as(partial(_actor, request)):
            return super().__call__(request)

    async def __acall__(self, request: HttpRequest) -> Any:
        with audit.acting_as(partial(_actor, request)):
            return await super().__acall__(request)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Record what a person may not do. Strangers are refused all the time, and nothing is known of them."""
        if response.status_code == 403 and request.user.is_authenticated:
            about, reason = _about(request), _reason(request, response)
            audit.refuse("person.refused", about, reason, method=request.method, path=request.path)
        return response


def _actor(request: HttpRequest) -> Actor:
    user, token = request.user, getattr(request.user, "token", None)
    return Actor(
        user.get_username(),
        user.pk,
        Via.PAGE if token is None else Via.API,
        "" if token is None else str(token),
        request.META.get("REMOTE_ADDR") or "",
    )


def _about(request: HttpRequest) -> Thing:
    """The object that the path names, without asking the database what it is called."""
    match = request.resolver_match
    kind = KIND_OF_PATH.get(request.path.removeprefix(API).strip("/").partition("/")[0], "")
    if not match or not kind:
        return Thing()
    keys = [value for value in match.kwargs.values() if isinstance(value, int) and value < 2**63]
    return Thing(kind, keys[0]) if keys else Thing(kind)


def _reason(request: HttpRequest, response: HttpResponseBase) -> str:
    """What the API answered, or why a form was refused."""
    if response.headers.get("Content-Type") == "application/json":
        return str(msgspec.json.decode(response.content)["error"]["message"])  # type: ignore[attr-defined]
    return getattr(request, "refused", NOT_ALLOWED)


@receiver(user_logged_in)
def _signed_in(user: User, **_: Any) -> None:
    audit.record("person.sign_in", user, by=user, how=_how(user))


@receiver(user_logged_out)
def _signed_out(user: User | None, **_: Any) -> None:
    if user is not None:
        audit.record("person.sign_out", user, by=user)


@receiver(user_login_failed)
def _sign_in_failed(credentials: dict[str, Any], **_: Any) -> None:
    """Of the credentials only the name is recorded: anything else may be a secret."""
    name = str(credentials.get("username") or "")
    reason = "Wrong name or password." if name else "The login URL was used up, has expired, or is wrong."
    audit.refuse("person.sign_in", Thing("person", None, name[:150]), reason)


def _how(user: User) -> str:
    """By what the user signs in: the backend says."""
    backend = str(getattr(user, "backend", ""))
    return WAYS.get(backend, backend)
