"""API tokens of one's own: what may be asked for, and what is shown of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone
from typing_extensions import TypedDict

from dashboard.models import LONGEST_NAME, ApiToken
from tuning import audit
from tuning.models import Project, project_of_token
from tuning.validation import Invalid, gather, natural

Scope = ApiToken.Scope
LONGEST_DAYS = 3650
MOST = 100
"""Tokens of one user."""
FIELDS = ("name", "scope", "days", "project")
"""What may be asked for."""


class TokenDict(TypedDict):
    """A token without its text. `expires_at` is null if it never expires, `project` if it is for all projects of its owner."""

    id: int
    name: str
    project: str | None
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


def projects(user: User) -> QuerySet[Project]:
    """Those that a token of the user can be for."""
    return Project.objects.seen_by(user)


def project_named(user: User, name: Any) -> Project | None:
    """The project of a new token of the user; None, for all of theirs, without a name. Raises `Invalid`."""
    if name in (None, ""):
        return None
    known = {one.name: one for one in projects(user)}
    if not isinstance(name, str) or name not in known:
        raise Invalid({"project": f"Must be one of these projects, or be left out: {', '.join(known)}."})
    return known[name]


def of(user: User) -> QuerySet[ApiToken]:
    """The user's tokens; with a project's token only those for that project, since names tell of others."""
    found, project = user.api_tokens.select_related("project"), project_of_token(user)
    return found if project is None else found.filter(project=project)


def create(user: User, name: Any, scope: Any, days: Any = None, project: Any = None) -> NewTokenDict:
    """Create a token of the user, for one project or for all of theirs. Raises `Invalid`."""
    wrong: dict[str, str] = {}
    asked = gather(wrong, checked, name, scope, days)
    chosen = gather(wrong, project_named, user, project)
    if wrong:
        raise Invalid(wrong)
    if user.api_tokens.count() >= MOST:
        raise Invalid({"name": f"You have {MOST} tokens already. Revoke some that you no longer use."})
    token, text = made(user, chosen, asked)
    return {**shown(token), "token": text}


def made(user: User, project: Project | None, asked: Asked) -> tuple[ApiToken, str]:
    """A new token and its text, recorded."""
    where = {"project": project.name} if project else {}
    with audit.act("token.create", user, name=asked["name"], scope=asked["scope"], **where):
        return ApiToken.make(user, project=project, **asked)


def revoke(token: ApiToken) -> None:
    """Delete the token: it is refused from now on."""
    with audit.act("token.revoke", token.user, name=token.name):
        token.delete()


def shown(token: ApiToken) -> TokenDict:
    return {
        "id": token.pk,
        "name": token.name,
        "project": token.project.name if token.project else None,
        "scope": token.scope,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
    }
