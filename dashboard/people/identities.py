"""People who sign in with the OpenID provider: found by its id of them, created the first time, with the role that it gives."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard.accounts import active_admins, make_user, put_into_role, role_of, site_role, take_roles
from dashboard.models import LONGEST_SUBJECT, Identity
from tuning import audit
from tuning.audit import Thing

from .claims import Claims, free_name, is_admitted, name_in, role_in
from .sessions import end_sessions

logger = logging.getLogger(__name__)
HOW = "single sign-on"
"""What the audit log calls this way of signing in."""
TRIES = 3
"""Two first sign-ins at the same moment may want the same name, or be the same person's."""


class Refused(Exception):
    """The person may not sign in. The message is for them and for the audit log."""

    def __init__(self, reason: str, of: User | Thing | None = None) -> None:
        super().__init__(reason)
        self.of = of


def person_of(issuer: str, claims: Claims) -> User:
    """The person whom the verified claims are about, with the role that they give now. Raises `Refused`.

    Nobody is found by name or e-mail address: at many providers people choose these themselves.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        raise Refused("The provider sent no usable id of yours.")
    for left in reversed(range(TRIES)):
        try:
            found = _signed_in(issuer, subject, claims)
        except (IntegrityError, ValidationError):
            if not left:
                raise
            continue
        if isinstance(found, Refused):
            raise found
        return found
    raise AssertionError("the last try either returns or raises")


@transaction.atomic
def _signed_in(issuer: str, subject: str, claims: Claims) -> User | Refused:
    """The person, or why they are refused, in which case the role that they had before is gone."""
    # As for all changes of roles, so that two admins can't be removed at the same time.
    Group.objects.select_for_update().get(name="admin")
    identity = Identity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
    user = identity.user if identity else None
    role, refusal = _decision(claims)
    if user and not user.is_active:
        return Refused("Your account here is deactivated. Ask an admin of this site.", user)
    if role is None:
        if user:
            _follow(user, None)
        return Refused(refusal, user or Thing("person", None, name_in(claims)))
    if user is None:
        user = make_user(free_name(claims), how=HOW, subject=subject)
    _follow(user, role)
    Identity.objects.update_or_create(
        user=user, defaults={"issuer": issuer, "subject": subject, "signed_in_at": timezone.now()}
    )
    return user


def _decision(claims: Claims) -> tuple[str | None, str]:
    """The role, or why there is none."""
    if not is_admitted(claims):
        return None, "You aren’t among those whom this site admits. Ask an admin of this site."
    role = role_in(claims)
    return role, "None of your roles or groups at the provider gives you a role here. Ask an admin of this site."


def _follow(user: User, role: str | None) -> None:
    """Give the user the provider's role, or none. What the provider says holds even for the last admin, but not silently."""
    before = site_role(user)
    if before == role and (role or not role_of(user)):
        return
    details: dict[str, Any] = {"role": role or "none", "how": HOW}
    others = active_admins().exclude(pk=user.pk)
    if before == "admin" and not others.exists():
        details["last_admin"] = True
        logger.warning(
            "The provider took the admin role from %s, the last admin. `manage.py login_url` makes another.", user
        )
    with audit.act("person.role", user, **details):
        if role:
            put_into_role(user, role)
        else:
            take_roles(user)
            end_sessions(user)
