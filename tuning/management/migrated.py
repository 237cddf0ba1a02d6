"""Commands that work in a fresh checkout: the database is brought up to date first."""

from __future__ import annotations

from typing import Any

from django.core.management import BaseCommand, call_command


class MigratedCommand(BaseCommand):
    """A command that migrates before it does its work, and keeps stdout for its result."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Migrate, then go on as Django does."""
        call_command("migrate", verbosity=0, interactive=False)
        return super().execute(*args, **options)
