"""Commands that work in a fresh checkout: the database is brought up to date first."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command

from tuning.host.reachable import database_trouble


class MigratedCommand(BaseCommand):
    """A command that migrates before it does its work, and keeps stdout for its result."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Migrate, then go on as Django does. Raises `CommandError` when the database can't be reached."""
        if trouble := database_trouble():
            raise CommandError(trouble)
        migrate()
        return super().execute(*args, **options)


def migrate() -> None:
    """Bring the database up to date. Commands that start at once do it one after the other, else both make tables."""
    folder = os.open(settings.VAR, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        call_command("migrate", verbosity=0, interactive=False)
    finally:
        os.close(folder)
