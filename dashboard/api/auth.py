"""Authenticate API calls: browsers by session, scripts by token. `dashboard.http.middleware` has found the user already."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.errors import HttpError
from ninja.security import HttpBearer
from ninja.security import SessionAuth as NinjaSessionAuth

from dashboard.accounts import (
    CANCEL,
    CANCEL_IMPORT,
    CHANGE,
    CHANGE_COMPILATION,
    COMPILE,
    CREATE_PROJECT,
    DELETE,
    DELETE_NETWORK,
    DELETE_PROJECT,
    LAUNCH,
    MANAGE_MACHINES,
    MANAGE_PEOPLE,
    MANAGE_PROJECT,
    SEE_AUDIT,
    STOP,
    UPLOAD,
    VIEW,
    VIEW_PEOPLE,
    Scope,
    in_scope,
)
from dashboard.people.backends import token_of

WHAT = {
    VIEW: "look at runs",
    LAUNCH: "launch runs",
    CHANGE: "resume, extend, edit or mark runs",
    STOP: "stop runs",
    DELETE: "delete or restore runs",
    COMPILE: "compile runs",
    CHANGE_COMPILATION: "benchmark compilations again",
    CANCEL: "cancel compilations",
    CANCEL_IMPORT: "cancel imports",
    UPLOAD: "upload models or extract tasks",
    DELETE_NETWORK: "delete models",
    SEE_AUDIT: "see the audit log",
    CREATE_PROJECT: "create projects",
    MANAGE_PROJECT: "change projects and their members",
    DELETE_PROJECT: "delete projects",
    VIEW_PEOPLE: "look at people",
    MANAGE_MACHINES: "drain, resume or forget machines",
    MANAGE_PEOPLE: "invite people, change their roles, deactivate or reactivate them",
}


def needs(permission: str) -> list[Any]:
    """Token or session of a user with the permission."""
    return [TokenAuth(permission), SessionAuth(permission)]


class TokenAuth(HttpBearer):
    """`Authorization: Bearer TOKEN`. Needs no CSRF check: browsers don't send it on their own."""

    def __init__(self, permission: str) -> None:
        super().__init__()
        self.permission = permission

    def authenticate(self, request: HttpRequest, token: str) -> User | None:  # noqa: ARG002
        """The token's owner."""
        return _permitted(request, self.permission) if hasattr(request, "by_token") else None


class SessionAuth(NinjaSessionAuth):
    """The session cookie, with a CSRF check for unsafe methods."""

    def __init__(self, permission: str) -> None:
        super().__init__()
        self.permission = permission

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:  # noqa: ARG002
        return _permitted(request, self.permission)


def _permitted(request: HttpRequest, permission: str) -> User | None:
    user = request.user
    if not isinstance(user, User):
        return None
    if not user.has_perm(permission):
        raise HttpError(403, f"{_limit(user, permission)} doesn't allow you to {WHAT[permission]}.")
    return user


def _limit(user: User, permission: str) -> str:
    token = token_of(user)
    if token is None or in_scope(token, permission):
        return "Your role"
    site = token.project_id is not None and token.scope == Scope.ADMIN
    return "A project's token" if site else f"This token's scope, {token.scope},"
