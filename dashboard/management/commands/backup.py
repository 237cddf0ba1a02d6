"""`manage.py backup FILE`: write everything that must not be lost to one file."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import msgspec
from django.core.management import CommandError

from dashboard.management.archiving import recorded, working
from tuning.backup.making import Made, back_up
from tuning.host.reachable import database_trouble
from tuning.management.migrated import QuickCommand
from tuning.wording import duration


class Command(QuickCommand):
    """Doesn't migrate: the backup has the database as it is."""

    help = "Write a backup of the database, the runs' files, uploaded models and built libraries. The site may go on tuning."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="such as tuneboard.tar.zst; it must not exist yet")
        parser.add_argument("--force", action="store_true", help="replace FILE once the new backup is complete")
        parser.add_argument("--json", action="store_true", help="print what was written as JSON")

    def handle(self, *, file: Path, force: bool, **options: Any) -> None:
        if file.is_dir() or (file.exists() and not force):
            raise CommandError(f"{file} exists already. Choose another name, or replace it with --force.", returncode=2)
        if trouble := database_trouble():
            raise CommandError(trouble)
        with working(file, self.stderr) as progress:
            made = back_up(file.absolute(), progress)
        recorded("site.backup", file)
        for name in made.missing:
            self.stderr.write(f"Not in the backup, because it isn't there (anymore): {name}")
        self.stdout.write(json.dumps(_facts(file, made)) if options["json"] else _said(file, made))


def _facts(file: Path, made: Made) -> dict[str, Any]:
    about: dict[str, Any] = msgspec.to_builtins(made.manifest)
    return {"file": str(file.absolute()), "size": made.size, "seconds": made.seconds, "missing": made.missing} | about


def _said(file: Path, made: Made) -> str:
    return (
        f"Backed up {made.manifest} to {file}"
        f" ({made.size / 2**20:,.1f} MiB) in {duration(made.seconds)}. Whoever has this file can act as any user: keep it secret."
    )
