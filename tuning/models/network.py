"""What can be tuned."""

from __future__ import annotations

from django.db import models


class Network(models.Model):
    """What is tuned: a built-in network's name with its options."""

    name = models.CharField(max_length=100)
    options = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=64, unique=True)
    """Digest of name and options, since JSON can't be unique on every database."""

    def __str__(self) -> str:
        return self.name
