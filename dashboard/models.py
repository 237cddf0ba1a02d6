"""API tokens, sessions, who people are at the provider that they sign in with, and when they were last seen."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils import timezone
from typing_extensions import Self

PREFIX = "tb_"
"""Lets people and secret scanners recognize tokens."""
SEEN_EVERY = timedelta(minutes=1)
"""Resolution of `last_used_at` and `seen_at`, so that a polling script or page doesn't write to the database each time."""


UNNAMED = "unnamed"
"""The name of tokens that were made before tokens had names, or without one."""
LONGEST_NAME = 100


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def owner_of(self, text: str) -> User | None:
        """The token's owner, if active, as `user.token` allows; also records that the token was used."""
        token = self.valid().select_related("user__person").filter(digest=digest(text), user__is_active=True).first()
        if token is None:
            return None
        token.seen()
        return token.bearer()

    def valid(self) -> Self:
        """Those that haven't expired."""
        return self.filter(models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now()))


class ApiToken(models.Model):
    """Lets a script act as a user, in one project or in all of theirs. Only a digest is stored: the token is shown once, when it is issued.

    A revoked token is deleted.
    """

    class Scope(models.TextChoices):
        """What a token may be used for, weakest first. It allows nothing that its owner's role doesn't allow."""

        READ = "read", "look only"
        LAUNCH = "launch", "look, launch and compile"
        ADMIN = "admin", "all that your role allows"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    project = models.ForeignKey("tuning.Project", on_delete=models.CASCADE, null=True, related_name="+")
    """The only project that it is for; all projects of its owner if null."""
    name = models.CharField(max_length=LONGEST_NAME, default=UNNAMED)
    scope = models.CharField(max_length=10, choices=Scope.choices, default=Scope.ADMIN)
    digest = models.CharField(max_length=64, unique=True)
    """SHA-256. Needs no salt, since tokens are 256 random bits."""
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    """Never, if null."""
    last_used_at = models.DateTimeField(null=True)

    by_superuser = False
    """Whether the owner is a superuser, of a token that somebody came by."""

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return f"token {self.name} of {self.user}"

    @classmethod
    def make(cls, user: User, **values: Any) -> tuple[ApiToken, str]:
        """Create a token; returns it with its text, which isn't stored."""
        text = PREFIX + secrets.token_urlsafe(32)
        return cls.objects.create(user=user, digest=digest(text), **values), text

    @classmethod
    def issue(cls, user: User, **values: Any) -> str:
        """Create a token; returns its text, which isn't stored."""
        return cls.make(user, **values)[1]

    @property
    def expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    def bearer(self) -> User:
        """The owner as whoever came by this token: `dashboard.people.backends` caps the permissions by `user.token`.

        A superuser isn't one here, because Django would then grant everything without asking the backends.
        """
        user: User = self.user
        self.by_superuser, user.is_superuser = user.is_superuser, False
        user.token = self  # type: ignore[attr-defined]
        return user

    def seen(self) -> None:
        """Update `last_used_at`, at most once per `SEEN_EVERY`."""
        now = timezone.now()
        if self.last_used_at is None or self.last_used_at < now - SEEN_EVERY:
            ApiToken.objects.filter(pk=self.pk).update(last_used_at=now)


def digest(text: str) -> str:
    """What is stored of a token or of a session's key."""
    return hashlib.sha256(text.encode()).hexdigest()


class Person(models.Model):
    """What Django's users lack."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True)
    seen_at = models.DateTimeField()
    """The last request in a session or with a token, to within `SEEN_EVERY`."""

    def __str__(self) -> str:
        return str(self.user)

    @classmethod
    def saw(cls, user: User) -> None:
        """Update `seen_at`, at most once per `SEEN_EVERY` if `user.person` has been read."""
        now = timezone.now()
        known: Person | None = getattr(user, "person", None)
        if known is None or known.seen_at < now - SEEN_EVERY:
            Person.objects.bulk_create(
                [Person(user=user, seen_at=now)],
                update_conflicts=True,
                unique_fields=["user"],
                update_fields=["seen_at"],
            )


LONGEST_SUBJECT = 255
"""Characters, by OpenID Connect."""


class Identity(models.Model):
    """Who a person is at the OpenID provider. Names and e-mail addresses there may change or be chosen freely; this doesn't."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True)
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=LONGEST_SUBJECT)
    """The provider's own id of the person, the claim `sub`."""
    signed_in_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("issuer", "subject"), name="one_person_per_subject")]

    def __str__(self) -> str:
        return f"{self.user} at {self.issuer}"

    @property
    def decides(self) -> bool:
        """Whether its provider is the one that the site uses now."""
        return bool(self.issuer == settings.OIDC_ISSUER)

    @classmethod
    def deciding(cls, user: Any) -> Identity | None:
        """The user's identity at the provider that the site uses now, which then decides their role and lets them in."""
        identity: Identity | None = getattr(user, "identity", None)
        return identity if identity and identity.decides else None


class Session(AbstractBaseSession):
    """A session that knows its user, so that all sessions of one can be ended: by deleting them."""

    session_key = models.CharField(max_length=64, primary_key=True)
    """SHA-256 of the key in the cookie, which isn't stored. Needs no salt, since keys are 165 random bits."""
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="kept_sessions"
    )
    """Null before sign-in."""

    class Meta(AbstractBaseSession.Meta):
        pass

    @classmethod
    def get_session_store_class(cls) -> Any:
        return import_module(settings.SESSION_ENGINE).SessionStore
