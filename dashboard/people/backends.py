"""The authentication backends: they decide how people sign in, and every `user.has_perm`.

Pages, the API, sockets and uploads all ask `user.has_perm`, so a rule that stands here holds everywhere.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission, User
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest
from sesame.backends import SesameBackendMixin

from dashboard.accounts import ADMIN, OWN, ROLES, in_scope
from dashboard.models import ApiToken, Identity
from tuning.models import Compilation, Extraction, Project, Task, roles_of


def token_of(user: Any) -> ApiToken | None:
    """The token that the user came by; None in a session."""
    token: ApiToken | None = getattr(user, "token", None)
    return token


class Roles(ModelBackend):
    """Sign-in by password; permissions by role, capped by the scope and the project of the token that the user came by.

    The site's admins have the permissions of their group, everybody else those of their roles in projects. `obj` is what is
    acted on; without it the question is whether the user may do this anywhere.
    """

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **more: Any
    ) -> User | None:
        """The user, if the password is right and theirs to use: for whom a provider lets in, it alone decides."""
        if not settings.PASSWORD_SIGN_IN:
            return None
        user = super().authenticate(request, username, password, **more)
        return user if isinstance(user, User) and not Identity.deciding(user) else None

    def get_user(self, user_id: Any) -> User | None:
        """The active user, with when they were last seen."""
        return User.objects.select_related("person").filter(pk=user_id, is_active=True).first()

    def has_perm(self, user_obj: Any, perm: str, obj: Model | None = None) -> bool:
        """What the token leaves out is refused for good: no other backend is asked."""
        if not _is_covered(user_obj, perm, obj):
            raise PermissionDenied
        return perm in super().get_all_permissions(user_obj) or _allowed_by_project(user_obj, perm, obj)

    def get_all_permissions(self, user_obj: Any, obj: Model | None = None) -> set[str]:
        """All for which `has_perm` says yes."""
        of_site = super().get_all_permissions(user_obj)
        of_projects = {one for one in ROLES[ADMIN] if _allowed_by_project(user_obj, one, obj)}
        return {one for one in of_site | of_projects if _is_covered(user_obj, one, obj)}

    def _get_group_permissions(self, user_obj: User) -> Any:
        """Every permission for superusers who came by a token. Without one, Django doesn't ask."""
        token = token_of(user_obj)
        if token and token.by_superuser:
            return Permission.objects.all()
        return super()._get_group_permissions(user_obj)  # type: ignore[misc]


def _is_covered(user: Any, permission: str, of: Model | None) -> bool:
    """Whether the token that the user came by, if any, may be used for this."""
    token = token_of(user)
    if token is None:
        return True
    elsewhere = token.project_id is not None and _project_of(of) not in (None, token.project_id)
    return not elsewhere and in_scope(token, permission)


def _allowed_by_project(user: Any, permission: str, of: Model | None) -> bool:
    if not isinstance(user, User) or not user.is_active:
        return False
    roles, project = roles_of(user), _project_of(of)
    if project is None:
        return any(permission in ROLES[role] for role in roles.values())
    role = roles.get(project)
    if role is None or permission not in ROLES[role]:
        return False
    return permission not in OWN or role == ADMIN or _is_own(user, of) or _is_shared(of)


def _project_of(of: Any) -> int | None:
    """The key of the project that something belongs to; None for a built-in network, which is everybody's."""
    if isinstance(of, Project):
        return of.pk
    owner = _owner(of)
    project: int | None = getattr(owner, "project_id", None)
    return project


def _owner(of: Any) -> Any:
    """The run or network that something is a part of, or is itself."""
    if isinstance(of, (Compilation, Task)):
        return of.run
    return of.network if isinstance(of, Extraction) else of


def _is_own(user: User, of: Model | None) -> bool:
    """Whether the user launched the run, or asked for what the compilation does."""
    asked = {of.created_by_id, of.asked_by_id} if isinstance(of, Compilation) else set()
    return user.pk in {_owner(of).created_by_id, *asked}


def _is_shared(of: Model | None) -> bool:
    """Whether the project's operators may stop and delete each other's work. Reads the project only where it decides."""
    return bool(_owner(of).project.shared)


class LoginUrls(SesameBackendMixin, Roles):  # type: ignore[misc]
    """Sign-in by a URL that works once."""
