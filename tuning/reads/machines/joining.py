"""Whether other machines can join this site."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection

from tuning.host import valkey


def obstacles() -> list[str]:
    """What keeps other machines from joining, and what to set; empty if nothing does."""
    found = []
    if connection.vendor != "postgresql":
        found.append("Its database is SQLite, a file of this machine: set DATABASE_URL to a PostgreSQL server.")
    if valkey.url(settings.VAR) == settings.REDIS_URL or urlsplit(settings.REDIS_URL).scheme == "unix":
        found.append("Its queue is a Valkey of this machine alone: set REDIS_URL to a Redis or Valkey server.")
    return found
