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
"""Tells people, and scanners of leaked secrets, what such a string is."""
SEEN_EVERY = timedelta(minutes=1)
"""`last_used_at` is at most this old while a token is in use: a script that polls shouldn't write each time."""


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Reads of tokens."""

    def owner_of(self, text: str) -> User | None:
        """The active user to whom a token belongs, and note that it was used."""
        token = self.select_related("user").filter(digest=_digest(text), user__is_active=True).first()
        if token is None:
            return None
        token.seen()
        return token.user


class ApiToken(models.Model):
    """Lets a script act as its user. Only the digest is kept: the token itself is shown once, when it is made."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    digest = models.CharField(max_length=64, unique=True)
    """SHA-256, unsalted: the token is 256 random bits, which no table of digests holds."""
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return f"token {self.pk} of {self.user}"

    @classmethod
    def issue(cls, user: User) -> str:
        """Make a token for the user; gives its text, which can't be had again."""
        text = PREFIX + secrets.token_urlsafe(32)
        cls.objects.create(user=user, digest=_digest(text))
        return text

    def seen(self) -> None:
        """Note the use, unless that was done lately."""
        now = timezone.now()
        if self.last_used_at is None or self.last_used_at < now - SEEN_EVERY:
            ApiToken.objects.filter(pk=self.pk).update(last_used_at=now)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
