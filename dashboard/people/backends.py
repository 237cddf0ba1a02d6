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

from dashboard.accounts import in_scope
from dashboard.models import ApiToken, Identity


def token_of(user: Any) -> ApiToken | None:
    """The token that the user came by; None in a session."""
    token: ApiToken | None = getattr(user, "token", None)
    return token


class Roles(ModelBackend):
    """Sign-in by password; permissions by role, capped by the scope of the token that the user came by."""

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
        """What the token's scope leaves out is refused for good: no other backend is asked."""
        token = token_of(user_obj)
        if token and not in_scope(token.scope, perm):
            raise PermissionDenied
        return bool(super().has_perm(user_obj, perm, obj))

    def get_all_permissions(self, user_obj: Any, obj: Model | None = None) -> set[str]:
        """The role's permissions, without those that the token's scope leaves out."""
        held: set[str] = super().get_all_permissions(user_obj, obj)
        token = token_of(user_obj)
        return held if token is None else {permission for permission in held if in_scope(token.scope, permission)}

    def _get_group_permissions(self, user_obj: User) -> Any:
        """Every permission for superusers who came by a token. Without one, Django doesn't ask."""
        token = token_of(user_obj)
        if token and token.by_superuser:
            return Permission.objects.all()
        return super()._get_group_permissions(user_obj)  # type: ignore[misc]


class LoginUrls(SesameBackendMixin, Roles):  # type: ignore[misc]
    """Sign-in by a URL that works once."""
