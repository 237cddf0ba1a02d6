"""Roles in projects and their permissions: viewers look, operators launch, admins manage. The site's admins may do all of it."""

from __future__ import annotations

from itertools import chain, count
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import Group, Permission, User
from django.db.models import Model, Q, QuerySet
from sesame.utils import get_parameters

from tuning import audit
from tuning.models import SEES_ALL, Project, roles_of

from .models import ApiToken

Scope = ApiToken.Scope

ONE_TIME_LOGIN = "/login/"
"""Path of the page that signs in by URL. Commands print it, and don't load all routes for it, which takes seconds."""

VIEW = "tuning.view_run"
LAUNCH = "tuning.add_run"
CHANGE = "tuning.change_run"
"""Resume and extend; rename and write notes; mark."""
STOP = "tuning.stop_run"
DELETE = "tuning.delete_run"
"""Also restore."""
COMPILE = "tuning.add_compilation"
CHANGE_COMPILATION = "tuning.change_compilation"
"""Benchmark again."""
CANCEL = "tuning.cancel_compilation"
CANCEL_IMPORT = "tuning.cancel_import"
UPLOAD = "tuning.add_network"
"""Upload models and extract tasks."""
DELETE_NETWORK = "tuning.delete_network"
MANAGE_WEBHOOKS = "tuning.change_delivery"
"""See deliveries to webhooks, whose URLs are secrets, and send them again."""
SEE_AUDIT = "tuning.see_audit"
"""See who did what. Its name doesn't begin with `view_`, so a token needs the scope `admin` for it."""
SEE_METRICS = "tuning.view_tally"
"""See the Metrics page, and read the same figures with a token. They count the runs of all projects."""
VIEW_PEOPLE = "auth.view_user"
MANAGE_PEOPLE = "auth.change_user"
"""Invite, give roles, deactivate and reactivate."""

SEE_SYSTEM = "auth.view_group"
"""See what the site runs on and what confines its processes."""
MANAGE_MACHINES = "tuning.drain_machine"
"""Drain, resume and forget machines, which belong to the whole site."""
MANAGE_PROJECT = "tuning.change_project"
"""Rename and share a project, and decide who its members are. The last permission here that a role in a project can give."""
CREATE_PROJECT = "tuning.add_project"
DELETE_PROJECT = "tuning.delete_project"

OPERATE = (LAUNCH, CHANGE, STOP, DELETE, COMPILE, CHANGE_COMPILATION, CANCEL, CANCEL_IMPORT, UPLOAD)
"""What operators may do besides looking."""
ROLES = {
    "viewer": (VIEW,),
    "operator": (VIEW, *OPERATE),
    "admin": (VIEW, *OPERATE, DELETE_NETWORK, MANAGE_PROJECT),
}
"""What each role in a project allows, weakest first."""
OWN = (STOP, DELETE, CANCEL, CANCEL_IMPORT)
"""What operators may do only with what they launched themselves, unless the project is shared."""
ADMIN = "admin"
"""The group of those who manage the site: every permission, in every project."""


def in_scope(token: ApiToken, permission: str) -> bool:
    """Whether the token may use the permission, if its owner has it. With a project's token nobody manages the site."""
    if token.project_id is not None and permission not in (SEES_ALL, *ROLES[ADMIN]):
        return False
    looks = permission.partition(".")[2].startswith("view_")
    return looks or token.scope == Scope.ADMIN or (token.scope == Scope.LAUNCH and permission in OPERATE)


def sync_roles(**_: Any) -> None:
    """Create the group of the site's admins and set its permissions; runs after each migration."""
    group, _made = Group.objects.get_or_create(name=ADMIN)
    group.permissions.set(Permission.objects.filter(content_type__app_label__in=("tuning", "dashboard", "auth")))


def role_of(user: User) -> str | None:
    """`admin` for the site's admins, else the strongest role in any project, if there is one."""
    if user.is_superuser or any(group.name == ADMIN for group in user.groups.all()):
        return ADMIN
    held = set(roles_of(user).values())
    return next((role for role in reversed(ROLES) if role in held), None)


def give_role(user: User, role: str, project: Project | None = None) -> None:
    """Replace the user's role, as `put_into_role` does, and record it."""
    with audit.act("person.role", user, role=role, **({"project": project.name} if project else {})):
        put_into_role(user, role, project)


def put_into_role(user: User, role: str, project: Project | None = None) -> None:
    """Replace the user's role in a project, by default the first one, as a part of an act that is recorded.

    `admin` without a project makes an admin of the site.
    """
    admins = Group.objects.get(name=ADMIN)
    if role == ADMIN and project is None:
        user.groups.add(admins)
        return
    user.groups.remove(admins)
    where = project or Project.objects.default()
    user.memberships.update_or_create(project=where, defaults={"role": role})


class On:
    """What somebody may do with one thing, for templates: `may.stop_run`."""

    def __init__(self, user: Any, of: Model) -> None:
        self._user, self._of = user, of

    def __getitem__(self, codename: str) -> bool:
        return bool(self._user.has_perm(f"tuning.{codename}", self._of))


def refusal(permission: str) -> str:
    """Why a member of the project isn't allowed something."""
    if permission == CANCEL_IMPORT:
        return "Only whoever started the import and the project's admins may do this."
    if permission == CANCEL:
        return "Only those who asked for it or launched the run, and the project's admins, may do this."
    if permission in OWN:
        return "Only whoever launched the run and the project's admins may do this."
    return "Your role in the project doesn't allow this."


def site_role(user: User) -> str | None:
    """The role that `put_into_role` gives without a project: `admin`, or that in the first project."""
    if active_admins().filter(pk=user.pk).exists():
        return ADMIN
    held = user.memberships.filter(project=Project.objects.default()).first()
    return held.role if held else None


def take_roles(user: User) -> None:
    """Leave the user without a role in any project, as a part of an act that is recorded."""
    user.groups.remove(Group.objects.get(name=ADMIN))
    user.memberships.all().delete()


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
    return f"{base.rstrip('/')}{ONE_TIME_LOGIN}?{urlencode(get_parameters(user))}"
