"""What the provider's claims about a person mean here: whether they are admitted, their role, and their name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from dashboard.accounts import ROLES

Claims = Mapping[str, Any]
NAMES = ("preferred_username", "nickname", "email", "name")
"""The claims that a name here is made of; the first one that has any usable characters."""
LONGEST_NAME = 100
NOBODY = "person"
"""The name of somebody for whom no claim gives one."""
RESERVED = ("admin", "root", "system")
"""Names that say what somebody may do, which the provider's people may not choose."""
EVERYBODY = "*"


def is_admitted(claims: Claims) -> bool:
    """Whether TUNEBOARD_OIDC_ADMIT lets the person in. If it isn't set, having a role is enough."""
    return not settings.OIDC_ADMIT or any(_has(claims, claim, value) for claim, value in settings.OIDC_ADMIT)


def role_in(claims: Claims) -> str | None:
    """The strongest role that TUNEBOARD_OIDC_ROLES gives; None if it gives none."""
    values = {EVERYBODY, *(_values(claims, settings.OIDC_ROLE_CLAIM) if settings.OIDC_ROLE_CLAIM else ())}
    given = {role for value, role in settings.OIDC_ROLES.items() if value in values}
    return next((role for role in reversed(ROLES) if role in given), None)


def name_in(claims: Claims) -> str:
    """The person's name at the provider, in ASCII only: names in several scripts can look alike."""
    return next(filter(None, (_plain(claims.get(claim)) for claim in NAMES)), NOBODY)


def free_name(claims: Claims) -> str:
    """A name like the one at the provider that nobody has here, not even in other upper and lower case."""
    variants = _variants(name_in(claims))
    return next(free for free in variants if not User.objects.filter(username__iexact=free).exists())


def _variants(name: str) -> Iterator[str]:
    if name.lower() not in RESERVED:
        yield name
    yield from (f"{name}{number}" for number in count(2))


def _plain(name: Any) -> str:
    """The name's characters that names here may have."""
    ascii_only = unicodedata.normalize("NFKD", name if isinstance(name, str) else "").encode("ascii", "ignore").decode()
    return re.sub(r"[^\w.@+-]+", ".", ascii_only).strip(".")[:LONGEST_NAME]


def _has(claims: Claims, claim: str, value: str) -> bool:
    if claim == EVERYBODY:
        return True
    values = _values(claims, claim)
    if claim == "email" and value.startswith("@"):
        return any(address.lower().endswith(value) for address in values)
    return value in values


def _values(claims: Claims, path: str) -> list[str]:
    """The texts that the claim has. An address that the provider hasn't verified is none: people enter what they like."""
    if path == "email" and claims.get("email_verified") is not True:
        return []
    found = claims[path] if path in claims else _within(claims, path)
    return [value for value in (found if isinstance(found, list) else [found]) if isinstance(value, str)]


def _within(claims: Any, path: str) -> Any:
    for part in path.split("."):
        claims = claims.get(part) if isinstance(claims, Mapping) else None
    return claims
