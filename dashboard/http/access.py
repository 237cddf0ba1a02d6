"""What a request is about, found among what its user sees and refused where their role doesn't allow the act."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from dashboard.accounts import refusal

M_co = TypeVar("M_co", bound=Model, covariant=True)


class Seen(Protocol[M_co]):
    """Rows that belong to projects."""

    def seen_by(self, user: User | None) -> QuerySet[M_co]:
        """Those of the user's projects."""


def person(request: HttpRequest) -> User:
    """Who is signed in: every view but those of signing in has somebody."""
    assert isinstance(request.user, User)
    return request.user


def find(request: HttpRequest, rows: Seen[M_co], permission: str = "", **key: Any) -> M_co:
    """The row with this key. Raises `Http404` if it isn't of the user's projects, `PermissionDenied` if their role there isn't enough."""
    found = get_object_or_404(rows.seen_by(person(request)), **key)
    if permission:
        require(request, permission, found)
    return found


def require(request: HttpRequest, permission: str, *things: Model) -> None:
    """Raises `PermissionDenied` unless the user may do this with each of the things."""
    if not may(person(request), permission, *things):
        request.refused = refusal(permission)  # type: ignore[attr-defined]
        raise PermissionDenied(refusal(permission))


def may(user: User, permission: str, *things: Model) -> bool:
    """Whether the user may do this with each of the things."""
    return all(user.has_perm(permission, thing) for thing in things)
