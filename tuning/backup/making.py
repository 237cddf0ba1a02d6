"""Makes a backup while runs tune."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path

import msgspec
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from tuning.beneath import NotRegular
from tuning.version import VERSION

from .archive import Report, Writer
from .contents import DATABASE, SECRET, Item, Plan, plan, record_sizes
from .database import Database
from .manifest import NAME, Manifest
from .vendors import database


@dataclass(frozen=True)
class Made:
    """What a backup has. Sizes are in bytes."""

    manifest: Manifest
    size: int
    seconds: float
    missing: list[str]
    """Files that rows of the database tell of, but that weren't there."""


class Progress:
    """What a caller can show. This one shows nothing."""

    def begin(self, what: str, total: int | None = None) -> None:
        """The next step; `total` bytes if known."""

    def advance(self, size: int) -> None:
        """So many more bytes of this step are done."""


def back_up(target: Path, progress: Progress) -> Made:
    """Write everything to the file, which appears when it is complete and replaces one of that name.

    The backup has one state of the database, and of each run the records of exactly these trials: record files are append-only and
    ahead of the database, so they are read after it and cut. Raises `Trouble`, or `OSError`.
    """
    began = time.monotonic()
    source = database()
    with tempfile.TemporaryDirectory(
        prefix=f".{target.name}-", dir=target.parent, ignore_cleanup_errors=True
    ) as folder:
        copy, partial = Path(folder, DATABASE), Path(folder, "archive")
        progress.begin("Copying the database")
        sizes = record_sizes()
        made_at = datetime.now(timezone.utc)
        with source.snapshot(copy) as alias:
            planned = plan(alias, sizes)
            migrations = sorted(
                f"{app}.{name}" for app, name in MigrationRecorder(connections[alias]).applied_migrations()
            )
        items = [Item(DATABASE, copy, copy.stat().st_size, copy.parent), *planned.items]
        manifest = _manifest(source, planned, items, migrations, made_at)
        progress.begin("Packing", manifest.bytes)
        missing = _write(partial, manifest, items, progress.advance)
        size = partial.stat().st_size
        partial.replace(target)
        _sync(target.parent)
    return Made(manifest, size, time.monotonic() - began, [*planned.missing, *missing])


def _manifest(
    source: Database, planned: Plan, items: Sequence[Item], migrations: list[str], made_at: datetime
) -> Manifest:
    return Manifest(
        tuneboard=VERSION,
        database=source.vendor,
        made_at=made_at,
        migrations=migrations,
        runs=planned.runs,
        trials=planned.trials,
        files=len(items),
        bytes=sum(item.size for item in items),
        server=source.server(),
    )


def _write(path: Path, manifest: Manifest, items: Sequence[Item], report: Report) -> list[str]:
    """Return the names of files that were deleted meanwhile, or replaced by an engine, which can't keep a site from its backups.

    Raises `OSError` if the database's copy or the secret key can't be read.
    """
    missing = []
    with Writer(path) as writer:
        text = msgspec.json.format(msgspec.json.encode(manifest))
        writer.add(NAME, BytesIO(text), len(text), manifest.made_at.timestamp())
        for item in items:
            try:
                file = item.open()
            except (FileNotFoundError, NotRegular):
                if item.name in (DATABASE, SECRET):
                    raise
                missing.append(item.name)
                continue
            with file:
                modified = item.modified(file) or manifest.made_at.timestamp()
                writer.add(item.name, file, item.size, modified, report)
    return missing


def _sync(folder: Path) -> None:
    """Have the new name survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
