"""Who calls the API: a browser with its session, or a script with a token. `dashboard.http.middleware` has let it in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.errors import HttpError
from ninja.security import HttpBearer
from ninja.security import SessionAuth as NinjaSessionAuth

from dashboard.accounts import CHANGE, CHANGE_COMPILATION, COMPILE, DELETE_NETWORK, LAUNCH, UPLOAD, VIEW

WHAT = {
    VIEW: "look at runs",
    LAUNCH: "launch runs",
    CHANGE: "stop and resume runs, edit their names and notes, mark or delete them",
    COMPILE: "compile runs",
    CHANGE_COMPILATION: "cancel and benchmark compilations",
    UPLOAD: "upload models and extract tasks",
    DELETE_NETWORK: "delete models",
}


def needs(permission: str) -> list[Any]:
    """Both ways in, for users who hold the permission."""
    return [TokenAuth(permission), SessionAuth(permission)]


class TokenAuth(HttpBearer):
    """`Authorization: Bearer TOKEN`. No CSRF check: browsers don't send it by themselves."""

    def __init__(self, permission: str) -> None:
        super().__init__()
        self.permission = permission

    def authenticate(self, request: HttpRequest, token: str) -> User | None:  # noqa: ARG002
        """The token's owner, whom the middleware has found."""
        return _permitted(request, self.permission) if hasattr(request, "by_token") else None


class SessionAuth(NinjaSessionAuth):
    """The session cookie, with a CSRF check on what changes something."""

    def __init__(self, permission: str) -> None:
        super().__init__()
        self.permission = permission

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:  # noqa: ARG002
        """The session's user."""
        return _permitted(request, self.permission)


def _permitted(request: HttpRequest, permission: str) -> User | None:
    user = request.user
    if not isinstance(user, User):
        return None
    if not user.has_perm(permission):
        raise HttpError(403, f"Your role doesn't allow you to {WHAT[permission]}.")
    return user
