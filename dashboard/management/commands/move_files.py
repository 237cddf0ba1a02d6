"""`manage.py move_files`: put all files where TUNEBOARD_STORAGE says."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import CommandError

from dashboard.hosting import SiteLock, Unavailable
from tuning import audit
from tuning.management.migrated import MigratedCommand
from tuning.models import Compilation, Import, Run
from tuning.storage import checking, moving


class Command(MigratedCommand):
    """Can be interrupted and begun again."""

    help = (
        "Move the files of runs, models, libraries and imports to where TUNEBOARD_STORAGE says, from wherever they are."
        " The site must not be running, on any machine."
    )

    def handle(self, **options: Any) -> None:
        if trouble := checking.trouble():
            raise CommandError(trouble)
        count = size = 0
        try:
            with SiteLock(settings.VAR):
                _refuse_busy()
                for name, of_file in moving.move():
                    count, size = count + 1, size + of_file
                    self.stdout.write(f"{name} ({of_file / 2**20:,.1f} MiB)")
        except Unavailable as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(
                f"{error} {count:,} files were moved, and nothing is lost: run the command again."
            ) from error
        if count:
            audit.record("site.move_files", None, to=_place(), files=count, bytes=size)
        self.stdout.write(f"Moved {count:,} file{'s' * (count != 1)} ({size / 2**20:,.1f} MiB) to {_place()}.")


def _refuse_busy() -> None:
    """Raises `CommandError` if somebody may be writing."""
    busy = [f"{kind.__name__.lower()} {row.pk}" for kind in (Run, Compilation, Import) for row in kind.objects.live()]
    if busy:
        raise CommandError(
            f"{', '.join(busy[:5])} {'is' if len(busy) == 1 else 'are'} going on. Stop the site on all its machines first."
        )


def _place() -> str:
    return {"files": str(settings.VAR), "database": "the database"}.get(settings.STORAGE, settings.STORAGE)
