"""API tokens."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone

PREFIX = "tb_"
"""Lets people and secret scanners recognize tokens."""
SEEN_EVERY = timedelta(minutes=1)
"""Resolution of `last_used_at`, so that a polling script doesn't write to the database each time."""


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def written(self, text: str) -> ApiToken | None:
        """The token with this text, if its owner is active; also records that it was used."""
        token = self.select_related("user").filter(digest=_digest(text), user__is_active=True).first()
        if token is not None:
            token.seen()
        return token

    def owner_of(self, text: str) -> User | None:
        """The owner of the token with this text, if active."""
        token = self.written(text)
        return token.user if token else None


class ApiToken(models.Model):
    """Lets a script act as a user. Only a digest is stored: the token is shown once, when it is issued."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    digest = models.CharField(max_length=64, unique=True)
    """SHA-256. Needs no salt, since tokens are 256 random bits."""
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return f"token {self.pk} of {self.user}"

    @classmethod
    def issue(cls, user: User) -> str:
        """Create a token; returns its text, which isn't stored."""
        text = PREFIX + secrets.token_urlsafe(32)
        cls.objects.create(user=user, digest=_digest(text))
        return text

    def seen(self) -> None:
        """Update `last_used_at`, at most once per `SEEN_EVERY`."""
        now = timezone.now()
        if self.last_used_at is None or self.last_used_at < now - SEEN_EVERY:
            ApiToken.objects.filter(pk=self.pk).update(last_used_at=now)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
