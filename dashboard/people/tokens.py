"""API tokens of one's own: what may be asked for, and what is shown of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone
from typing_extensions import TypedDict

from dashboard.models import LONGEST_NAME, ApiToken
from tuning import audit
from tuning.validation import Invalid, natural

Scope = ApiToken.Scope
LONGEST_DAYS = 3650
MOST = 100
"""Tokens of one user."""


class TokenDict(TypedDict):
    """A token without its text. `expires_at` is null if it never expires."""

    id: int
    name: str
    scope: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class NewTokenDict(TokenDict):
    """`token` is its text, which is never shown again."""

    token: str


class Asked(TypedDict):
    """The checked values of a new token."""

    name: str
    scope: str
    expires_at: datetime | None


def checked(name: Any, scope: Any, days: Any = None) -> Asked:
    """The values of a new token; without `days` it never expires. Raises `Invalid` that names every field at fault."""
    wrong = {}
    if not isinstance(name, str) or not 0 < len(name.strip()) <= LONGEST_NAME or not name.isprintable():
        wrong["name"] = f"Must be 1 to {LONGEST_NAME} characters."
    if scope not in Scope.values:
        wrong["scope"] = f"Must be one of {', '.join(Scope.values)}."
    number = None if days in (None, "") else natural(str(days).strip())
    if days not in (None, "") and (number is None or isinstance(days, bool) or not 1 <= number <= LONGEST_DAYS):
        wrong["days"] = f"Must be a whole number from 1 to {LONGEST_DAYS}, or be left out."
    if wrong:
        raise Invalid(wrong)
    expires_at = None if number is None else timezone.now() + timedelta(days=number)
    return {"name": name.strip(), "scope": scope, "expires_at": expires_at}


def create(user: User, name: Any, scope: Any, days: Any = None) -> NewTokenDict:
    """Create a token of the user. Raises `Invalid`."""
    asked = checked(name, scope, days)
    if user.api_tokens.count() >= MOST:
        raise Invalid({"name": f"You have {MOST} tokens already. Revoke some that you no longer use."})
    with audit.act("token.create", user, name=asked["name"], scope=asked["scope"]):
        token, text = ApiToken.make(user, **asked)
    return {**shown(token), "token": text}


def revoke(token: ApiToken) -> None:
    """Delete the token: it is refused from now on."""
    with audit.act("token.revoke", token.user, name=token.name):
        token.delete()


def shown(token: ApiToken) -> TokenDict:
    return {
        "id": token.pk,
        "name": token.name,
        "scope": token.scope,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
    }
