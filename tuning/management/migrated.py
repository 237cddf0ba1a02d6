"""Base of commands that migrate the database first, so they work in a fresh checkout."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command

from tuning.host.locks import lock_file
from tuning.host.reachable import database_trouble


class MigratedCommand(BaseCommand):
    """Migrates first, and writes nothing but its result to stdout."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Raises `CommandError` if the database can't be reached."""
        if trouble := database_trouble():
            raise CommandError(trouble)
        migrate()
        return super().execute(*args, **options)


def migrate() -> None:
    """Migrate the database, under a lock: two commands started together would both create the tables."""
    with lock_file(settings.VAR / "migrate.lock"):
        call_command("migrate", verbosity=0, interactive=False)
