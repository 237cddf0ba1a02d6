"""Whether the database's tables are those of this code, by the migrations that it has. Loads no migration."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from django.apps import apps
from django.db import Error, connection

Migration = tuple[str, str]
"""The app's label and the name."""


def newer() -> str | None:
    """Why this code can't use the database, in one line: a later Tuneboard migrated it. None if it can.

    Raises a database error if the database can't be reached.
    """
    if found := unknown(applied()):
        return (
            f"The database was upgraded by a later Tuneboard: this one doesn't know {', '.join(found)}. "
            "Start the later version, or restore a backup from before the upgrade (docs/backup.md)."
        )
    return None


def require_ours() -> None:
    """Exit with one line if a later Tuneboard has migrated the database; one that can't be reached is waited for elsewhere."""
    with suppress(Error):
        if trouble := newer():
            sys.exit(trouble)
    connection.close()


def unknown(migrations: Iterable[Migration]) -> list[str]:
    """Those that this code doesn't have, of apps that it has, as `app.name`.

    Apps that it doesn't have are ignored: an earlier version may have used them.
    """
    ours = {app for app, _ in known()}
    return sorted(f"{app}.{name}" for app, name in {*migrations} - known() if app in ours)


def pending() -> list[str]:
    """The migrations that an earlier version's database lacks, as `app.name`; none for a new, empty database."""
    done = applied()
    if not any(app == "tuning" for app, _ in done):
        return []
    return sorted(f"{app}.{name}" for app, name in known() - done)


def latest() -> str:
    """The name of this code's last migration, which tells schemas apart."""
    return max(name for app, name in known() if app == "tuning")


def applied() -> set[Migration]:
    """The migrations that the database has."""
    with connection.cursor() as cursor:
        if "django_migrations" not in connection.introspection.table_names(cursor):
            return set()
        cursor.execute("SELECT app, name FROM django_migrations")
        return set(cursor.fetchall())


@cache
def known() -> frozenset[Migration]:
    """The migrations that this code has."""
    return frozenset(
        (app.label, module.name)
        for app in apps.get_app_configs()
        for module in pkgutil.iter_modules([str(Path(app.path) / "migrations")])
        if not module.name.startswith("_")
    )
