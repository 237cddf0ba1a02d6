"""Which database the site has."""

from __future__ import annotations

from django.db import connection

from .database import Database
from .postgresql import Postgresql
from .sqlite import Sqlite


def database() -> Database:
    """The one that DATABASE_URL names."""
    return Sqlite() if connection.vendor == "sqlite" else Postgresql()
