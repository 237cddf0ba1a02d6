"""Bases of Tuneboard's commands; most migrate the database first, so they work in a fresh checkout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import Tags
from django.core.management import CommandError, call_command

from tuning import audit
from tuning.host import schema
from tuning.host.locks import lock_file
from tuning.host.reachable import database_trouble, one_line

from .plain import PlainCommand

Say = Callable[[str], object]


CHECKS = (Tags.caches, Tags.compatibility, Tags.files, Tags.models, Tags.security, Tags.staticfiles, Tags.templates)
"""Django's checks, but for those that load the code of all pages, which takes longer than most commands."""


class QuickCommand(PlainCommand):
    """Checks what a command needs before it begins."""

    requires_system_checks = CHECKS


class MigratedCommand(QuickCommand):
    """Migrates first, and writes nothing but its result to stdout. What it does is recorded as done by who runs it."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Raises `CommandError` if the database can't be reached or upgraded, or is a later version's."""
        if trouble := database_trouble():
            raise CommandError(trouble)
        migrate(self.stderr.write)
        with audit.acting_as(audit.command):
            return super().execute(*args, **options)


def migrate(say: Say, *, backup: bool = True) -> None:
    """Migrate the database, after a backup if it is an earlier version's.

    Under a lock: two commands started together would both create the tables. Raises `CommandError`.
    """
    with lock_file(settings.VAR / "migrate.lock"):
        refuse_newer()
        if lacking := schema.pending():
            _upgrade(lacking, say, backup=backup)
        else:
            _migrate()


def refuse_newer() -> None:
    """Raises `CommandError` if a later version has migrated the database."""
    if trouble := schema.newer():
        raise CommandError(trouble)


def _upgrade(lacking: Sequence[str], say: Say, *, backup: bool) -> None:
    from tuning.backup import upgrading  # Would otherwise stay in memory while `up` runs.

    say(f"The database is of an earlier version: it lacks {len(lacking)} migration{'s' * (len(lacking) != 1)}.")
    saved = _saved(say) if backup else None
    try:
        _migrate()
    except Exception as error:
        raise CommandError(f"The upgrade of the database failed: {one_line(error)} {_way_back(saved)}") from error
    say("Upgraded the database.")
    upgrading.tidy()


def _saved(say: Say) -> Path:
    from tuning.backup import upgrading
    from tuning.backup.database import Trouble

    say("Backing up before the upgrade; with much data this takes minutes.")
    try:
        path, made = upgrading.save()
    except (Trouble, OSError) as error:
        raise CommandError(
            f"The backup before the upgrade failed: {one_line(error)} Nothing was changed."
            " To upgrade without a backup: manage.py up --no-backup"
        ) from error
    say(f"The backup is {path} ({made.size / 2**20:,.1f} MiB).")
    return path


def _way_back(saved: Path | None) -> str:
    if saved is None:
        return "There is no backup, as you asked."
    return (
        f"The data from before is in {saved}. With the earlier version of Tuneboard: manage.py restore {saved} --force"
    )


def _migrate() -> None:
    call_command("migrate", verbosity=0, interactive=False)
