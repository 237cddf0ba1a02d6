"""Roles and their permissions: viewers look, operators launch, admins manage. Superusers are admins."""

from __future__ import annotations

from itertools import chain, count
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet
from django.urls import reverse
from sesame.utils import get_parameters

from tuning import audit

from .models import ApiToken

VIEW = "tuning.view_run"
LAUNCH = "tuning.add_run"
CHANGE = "tuning.change_run"
"""Stop, resume and extend; rename and write notes; mark, delete and restore."""
COMPILE = "tuning.add_compilation"
CHANGE_COMPILATION = "tuning.change_compilation"
"""Cancel, and benchmark again."""
UPLOAD = "tuning.add_network"
"""Upload models and extract tasks."""
DELETE_NETWORK = "tuning.delete_network"
MANAGE_WEBHOOKS = "tuning.change_delivery"
"""See deliveries to webhooks, whose URLs are secrets, and send them again."""
SEE_AUDIT = "tuning.see_audit"
"""See who did what. Its name doesn't begin with `view_`, since viewers have all those."""

SEE_METRICS = "tuning.change_tally"
"""See the Metrics page. Whoever may look at runs can read the same figures with a token."""
VIEW_PEOPLE = "auth.view_user"
MANAGE_PEOPLE = "auth.change_user"
"""Invite, give roles, deactivate and reactivate."""

OPERATE = (LAUNCH, CHANGE, COMPILE, CHANGE_COMPILATION, UPLOAD)
"""What operators may do besides looking. All of these are permissions of the app `tuning`."""
SEE_SYSTEM = "auth.view_group"
"""See what the site runs on and what confines its processes. Only admins have permissions of the app `auth`."""


ROLES = {
    "viewer": Q(content_type__app_label="tuning", codename__startswith="view_"),
    "operator": Q(content_type__app_label="tuning", codename__startswith="view_")
    | Q(content_type__app_label="tuning", codename__in=[permission.partition(".")[2] for permission in OPERATE]),
    "admin": Q(content_type__app_label__in=("tuning", "dashboard", "auth")),
}
"""Each role is a group with these permissions, weakest first."""


def in_scope(scope: str, permission: str) -> bool:
    """Whether a token of this scope may use the permission, if its owner has it."""
    if scope == ApiToken.Scope.ADMIN:
        return True
    looks = permission.partition(".")[2].startswith("view_")
    return looks or (scope == ApiToken.Scope.LAUNCH and permission in OPERATE)


def sync_roles(**_: Any) -> None:
    """Create the groups and set their permissions; runs after each migration."""
    for role, permissions in ROLES.items():
        group, _made = Group.objects.get_or_create(name=role)
        group.permissions.set(Permission.objects.filter(permissions))


def role_of(user: User) -> str | None:
    """The user's strongest role, if any."""
    if user.is_superuser:
        return "admin"
    held = {group.name for group in user.groups.all()}
    return next((role for role in reversed(ROLES) if role in held), None)


def give_role(user: User, role: str) -> None:
    """Replace the user's role, and record it."""
    with audit.act("person.role", user, role=role):
        put_into_role(user, role)


def put_into_role(user: User, role: str) -> None:
    """Replace the user's role, as a part of an act that is recorded."""
    user.groups.remove(*Group.objects.filter(name__in=ROLES.keys() - {role}))
    user.groups.add(Group.objects.get(name=role))


def take_role(user: User) -> None:
    """Leave the user without a role, as a part of an act that is recorded."""
    user.groups.remove(*Group.objects.filter(name__in=ROLES))


def make_user(name: str, **details: Any) -> User:
    """Create a user without a password; the details are recorded. Raises `ValidationError` for an invalid name."""
    user = User(username=User.normalize_username(name))
    user.set_unusable_password()
    user.full_clean()
    with audit.act("person.create", user, **details):
        user.save()
    return user


def active_admins() -> QuerySet[User]:
    """Everybody who is an admin and may sign in."""
    return User.objects.filter(Q(is_superuser=True) | Q(groups__name="admin"), is_active=True).distinct()


def first_admin() -> User:
    """The oldest active admin; created without a password if there is none."""
    admin = active_admins().order_by("pk").first()
    if admin is None:
        # An existing user named admin must not become one.
        names = chain(["admin"], (f"admin{number}" for number in count(2)))
        admin = make_user(next(name for name in names if not User.objects.filter(username=name).exists()))
        give_role(admin, "admin")
    return admin


def one_time_login_url(user: User, base: str = "") -> str:
    """A URL that signs the user in once, within `SESAME_MAX_AGE` seconds; `base` is scheme, host and port."""
    audit.record("person.login_url", user)
    return f"{base.rstrip('/')}{reverse('one_time_login')}?{urlencode(get_parameters(user))}"
