"""People: invited, given a role, deactivated and reactivated by admins. Nobody can leave the site without an admin."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, QuerySet
from django.utils import timezone
from typing_extensions import TypedDict

from dashboard.accounts import ADMIN, ROLES, active_admins, give_role, make_user, put_into_role, role_of, site_role
from dashboard.models import Identity, Person
from tuning import audit
from tuning.models import Project
from tuning.notify.announce import announce_sign_out
from tuning.validation import Conflict, Invalid, gather

from .sessions import end_sessions


class PlaceDict(TypedDict):
    """A project, and a person's role in it."""

    id: int
    name: str
    role: str


class PersonDict(TypedDict):
    """`role` is `admin` for who manages the site (`manages_site`), else the strongest role in any of `projects`.

    `role_from` is the name of the OpenID provider if it decides about the site and the first project. `signs_in_by` lists
    `password`, `login link`, or that name; `signed_in_at` is when the person last signed in with it. `seen_at` is null if the
    person wasn't seen since that is recorded.
    """

    id: int
    name: str
    role: str | None
    role_from: str | None
    manages_site: bool
    projects: list[PlaceDict]
    active: bool
    signs_in_by: list[str]
    signed_in_at: datetime | None
    tokens: int
    seen_at: datetime | None
    created_at: datetime


def people() -> list[PersonDict]:
    """Everybody, by name; those who are deactivated last."""
    return [_shown(user) for user in _users().order_by("-is_active", "username")]


def person(user: User) -> PersonDict:
    """One of them, as the database has it now."""
    return _shown(_users().get(pk=user.pk))


def _users() -> QuerySet[User]:
    found = User.objects.select_related("person", "identity").prefetch_related("groups", "memberships__project")
    return found.annotate(tokens=Count("api_tokens"))


def _shown(user: Any) -> PersonDict:
    seen: Person | None = getattr(user, "person", None)
    identity: Identity | None = getattr(user, "identity", None)
    held = sorted(user.memberships.all(), key=lambda one: one.project.name)
    user.roles = {one.project_id: one.role for one in held}  # They are read already.
    return {
        "id": user.pk,
        "name": user.get_username(),
        "role": role_of(user),
        "role_from": settings.OIDC_NAME if Identity.deciding(user) else None,
        "manages_site": user.is_superuser or any(group.name == ADMIN for group in user.groups.all()),
        "projects": [{"id": one.project_id, "name": one.project.name, "role": one.role} for one in held],
        "active": user.is_active,
        "signs_in_by": ways(user),
        "signed_in_at": identity.signed_in_at if identity else None,
        "tokens": user.tokens,
        "seen_at": seen.seen_at if seen else None,
        "created_at": user.date_joined,
    }


def ways(user: User) -> list[str]:
    """How the user can sign in."""
    if Identity.deciding(user):
        return [settings.OIDC_NAME]
    return ["password"] if user.has_usable_password() and settings.PASSWORD_SIGN_IN else ["login link"]


def check_may_have_password(user: User) -> None:
    """Raises `Conflict` if a password would be of no use to the user."""
    if Identity.deciding(user):
        raise Conflict(f"You sign in with {settings.OIDC_NAME}, so you need no password here.")
    if not settings.PASSWORD_SIGN_IN:
        raise Conflict("Signing in by password is turned off.")


def invite(name: Any, role: Any, project: Any = None) -> User:
    """Create a person without a password, to be sent a login URL. Raises `Invalid` that names every field at fault.

    Without the name of a project, the role is one in the only project, or `admin` of the site.
    """
    wrong: dict[str, str] = {}
    gather(wrong, _check_role, role)
    place = gather(wrong, _place, role, project)
    gather(wrong, _check_new, name)
    if wrong:
        raise Invalid(wrong)
    with transaction.atomic():
        user = make_user(name.strip())
        give_role(user, role, place)
    return user


def _place(role: Any, name: Any) -> Project | None:
    """The project of this name; without one None for an admin, who manages the site, and else the only project."""
    known = {project.name: project for project in Project.objects.all()}
    if name in (None, ""):
        if role == ADMIN:
            return None
        if len(known) == 1:
            return next(iter(known.values()))
        raise Invalid({"project": f"Choose one of {', '.join(known)}."})
    if not isinstance(name, str) or name not in known:
        raise Invalid({"project": f"Must be one of {', '.join(known)}."})
    return known[name]


def _check_role(role: Any) -> None:
    if not isinstance(role, str) or role not in ROLES:
        raise Invalid({"role": f"Must be one of {', '.join(ROLES)}."})


def _check_new(name: Any) -> None:
    """Names that differ in upper and lower case only would be confused."""
    if not isinstance(name, str):
        raise Invalid({"name": "Must be text."})
    user = User(username=User.normalize_username(name.strip()))
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise Invalid({"name": " ".join(error.messages)}) from error
    if User.objects.filter(username__iexact=user.username).exists():
        raise Invalid({"name": f"{user.username} already exists. The list can give them a new login link."})


def check_may_sign_in(user: User) -> None:
    """Raises `Conflict` if a login URL of the user would be refused."""
    if not user.is_active:
        raise Conflict(f"{user} is deactivated, so a login link would be refused. Reactivate the account first.")
    if Identity.deciding(user):
        raise Conflict(f"{user} signs in with {settings.OIDC_NAME}, and needs no login link.")


def change_role(user: User, role: Any, project: Any = None, by: User | None = None) -> None:
    """Give the user another role, in a project as `invite` takes it; `by` is who wants it. Raises `Invalid` or `Conflict`.

    Whoever managed the site does so no longer, unless the role is that of the site's admins.
    """
    _check_role(role)
    place = _place(role, project)
    with audit.act("person.role", user, role=role, **({"project": place.name} if place else {})):
        user = _locked(user)
        if by == user:
            raise Conflict("You can't change your own role. Ask another admin.")
        if user.is_superuser:
            raise Conflict(f"{user} is a superuser, and so always an admin.")
        if Identity.deciding(user) and (place in (None, Project.objects.default()) or site_role(user) == ADMIN):
            raise Conflict(f"{user} signs in with {settings.OIDC_NAME}, which decides the role. Change it there.")
        if place:
            _check_not_last(user)
        put_into_role(user, role, place)
        transaction.on_commit(partial(announce_sign_out, user.pk))


def deactivate(user: User, by: User | None = None) -> None:
    """End the user's sessions, sockets, tokens and login URLs at once, and let nobody sign in as them.

    What they did stays. Raises `Conflict`.
    """
    with audit.act("person.deactivate", user):
        user = _locked(user)
        if by == user:
            raise Conflict("You can't deactivate your own account. Ask another admin.")
        _check_not_last(user)
        # Login URLs are bound to `last_login`: those sent before stay invalid after a reactivation.
        User.objects.filter(pk=user.pk).update(is_active=False, last_login=timezone.now())
        user.api_tokens.all().delete()
        end_sessions(user)


def reactivate(user: User) -> None:
    """Let the user sign in again, with the password or a new login URL. Tokens and sessions stay ended."""
    with audit.act("person.reactivate", user):
        user = _locked(user)
        end_sessions(user)
        User.objects.filter(pk=user.pk).update(is_active=True)


def _locked(user: User) -> User:
    """The user as the database has it now. The lock keeps two admins from removing each other at the same time."""
    Group.objects.select_for_update().get(name="admin")
    return User.objects.get(pk=user.pk)


def _check_not_last(user: User) -> None:
    admins = active_admins()
    if admins.filter(pk=user.pk).exists() and not admins.exclude(pk=user.pk).exists():
        raise Conflict(f"{user} is the last active admin. Make somebody else an admin first.")
