"""Commands that bring the database up to date first, so that they work in a fresh checkout."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command

from tuning.host.locks import lock_file
from tuning.host.reachable import database_trouble


class MigratedCommand(BaseCommand):
    """A command that migrates before it does its work, and keeps stdout for its result."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Raises `CommandError` if the database can't be reached."""
        if trouble := database_trouble():
            raise CommandError(trouble)
        migrate()
        return super().execute(*args, **options)


def migrate() -> None:
    """Bring the database up to date. Commands started at the same time take turns, or both would create the tables."""
    with lock_file(settings.VAR / "migrate.lock"):
        call_command("migrate", verbosity=0, interactive=False)
