"""`manage.py restore FILE`: bring the site back from a backup."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management import CommandError
from django.db import connection

from dashboard.hosting import SiteLock, Unavailable
from dashboard.management.archiving import recorded, working
from tuning.backup import restoring
from tuning.backup.manifest import Manifest
from tuning.host.reachable import database_trouble
from tuning.management.migrated import QuickCommand


class Command(QuickCommand):
    """Exit status 1 if the backup is damaged, doesn't fit, or there is a site already. Then nothing has changed."""

    help = "Restore a backup into an empty database and an empty TUNEBOARD_VAR. The site must not be running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path)
        parser.add_argument("--force", action="store_true", help="put existing data aside; it isn't deleted")
        parser.add_argument(
            "--verify", action="store_true", help="only check that the backup is whole, and say what it has"
        )
        parser.add_argument("--json", action="store_true", help="print what the backup has as JSON")

    def handle(self, *, file: Path, verify: bool, **options: Any) -> None:
        done = self._verify(file) if verify else self._restore(file, force=options["force"])
        if options["json"]:
            self.stdout.write(
                json.dumps(msgspec.to_builtins(done.manifest) | {"aside": done.aside, "unpacked": done.unpacked})
            )
            return
        self.stdout.write(f"{'Whole' if verify else 'Restored'}: {_said(done.manifest)}.")
        for place in done.aside:
            self.stdout.write(f"The data from before is now in {place}. Delete it when you don't need it anymore.")
        if done.unpacked:
            self.stdout.write(
                f"{done.unpacked:,} files of an object store were unpacked into {settings.VAR}. Before the site starts, put them where"
                " TUNEBOARD_STORAGE says: manage.py move_files"
            )
        if not verify:
            self.stdout.write(
                "Everybody has to sign in again. Runs that were being tuned become interrupted when the site starts: resume them."
            )

    def _verify(self, file: Path) -> restoring.Restored:
        with working(file, self.stderr) as progress:
            return restoring.Restored(restoring.verify(file, progress), [])

    def _restore(self, file: Path, *, force: bool) -> restoring.Restored:
        # A damaged SQLite file can be replaced, too.
        if connection.vendor != "sqlite" and (trouble := database_trouble()):
            raise CommandError(trouble)
        try:
            with SiteLock(settings.VAR), working(file, self.stderr) as progress:
                done = restoring.restore(file, progress, force=force)
        except Unavailable as error:
            raise CommandError(str(error)) from error
        recorded("site.restore", file)
        return done


def _said(about: Manifest) -> str:
    return f"{about}, as of {about.made_at:%Y-%m-%d %H:%M:%S} UTC, by Tuneboard {about.tuneboard}"
