"""What a backup says about itself, and whether this Tuneboard can restore it."""

from __future__ import annotations

from datetime import datetime

import msgspec
from django.template.defaultfilters import pluralize

from tuning.host import schema
from tuning.version import VERSION

from .archive import Damaged, Member

NAME = "manifest.json"
FORMAT = 1
LARGEST = 1 << 20
"""Bytes of a manifest; any real one is far smaller."""
WORDS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


class Unfit(Exception):
    """The backup can't be restored by this Tuneboard, or into this database; the message says why."""


class Manifest(msgspec.Struct, frozen=True):
    """The first member of a backup."""

    tuneboard: str
    """Version of Tuneboard."""
    database: str
    """`sqlite` or `postgresql`."""
    made_at: datetime
    """The moment whose state the backup has."""
    migrations: list[str]
    """Applied ones, as `app.name`."""
    runs: int
    trials: int
    files: int
    """The number of members after the manifest, at most."""
    bytes: int
    """The sum of their sizes, at most."""
    server: int | None = None
    """Major version of the PostgreSQL server."""
    format: int = FORMAT

    def __str__(self) -> str:
        """How much it has."""
        counts = (("run", self.runs), ("trial", self.trials), ("file", self.files - 1))
        runs, trials, files = (f"{number:,} {noun}{pluralize(number)}" for noun, number in counts)
        return f"{runs} with {trials} and {files}"


def read(member: Member) -> Manifest:
    """Raises `Damaged`, or `Unfit` if a later Tuneboard wrote it."""
    if member.name != NAME or member.size > LARGEST:
        raise Damaged("it doesn't begin with a manifest")
    text = member.file.read()
    try:
        if msgspec.json.decode(text)["format"] > FORMAT:
            raise Unfit(
                "It was made by a later Tuneboard, in a format that this one doesn't know. Restore it with that."
            )
        return msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise Damaged(f"its manifest can't be read ({error})") from error


def check(manifest: Manifest, vendor: str) -> None:
    """Raises `Unfit` if the backup can't be restored by this Tuneboard into such a database."""
    if manifest.database != vendor:
        kinds = [WORDS.get(kind, kind) for kind in (manifest.database, vendor)]
        raise Unfit(
            f"It is a backup of {kinds[0]}, but DATABASE_URL is {kinds[1]}. A backup can't be moved from one to the other."
        )
    if unknown := schema.unknown((app, name) for app, _, name in (full.partition(".") for full in manifest.migrations)):
        raise Unfit(
            f"It was made by a later Tuneboard ({manifest.tuneboard}) than this one ({VERSION}), which doesn't have "
            f"{', '.join(unknown)}. Restore it with that version."
        )
