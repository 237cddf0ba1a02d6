"""Checks a backup, and brings a site back from it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import Error

from tuning.host.reachable import one_line
from tuning.storage.moving import forget_objects

from . import archive, manifest
from .archive import Damaged, Member
from .contents import ALLOWED, DATABASE, FOLDERS, SECRET
from .database import Database, Trouble
from .making import Progress
from .manifest import Manifest, Unfit
from .vendors import database


class Occupied(Exception):
    """There is a site already; the message says what it has."""


@dataclass(frozen=True)
class Restored:
    """What was brought back, and where the data is that was there before."""

    manifest: Manifest
    aside: list[str]
    unpacked: int = 0
    """Files that were in an object store, and are now in TUNEBOARD_VAR."""


def verify(file: Path, progress: Progress) -> Manifest:
    """Read the whole backup without writing anything. Raises `Damaged` or `OSError`."""
    with _opened(file, progress) as (about, content):
        for member in _allowed(about, content):
            while piece := member.file.read(archive.READ_BYTES):
                progress.advance(len(piece))
    return about


def restore(file: Path, progress: Progress, *, force: bool = False) -> Restored:
    """Bring the site back as it was when the backup was made; call it while holding the site's lock.

    Everything is checked and unpacked beside the current data before that is touched. What is replaced (`force`) is put aside,
    and brought back if anything fails. Raises `Damaged`, `Unfit`, `Occupied`, `Trouble` or `OSError`.
    """
    target = database()
    with _opened(file, progress) as (about, content), _staging() as staging:
        manifest.check(about, target.vendor)
        _check_server(about, target)
        target.check_tools()
        if not force:
            _check_empty(target)
        _check_room(about)
        _unpack(about, content, staging, progress)
        target.check_copy(staging / DATABASE)
        progress.begin("Restoring")
        return Restored(about, *_replace(target, staging))


@contextmanager
def _opened(file: Path, progress: Progress) -> Iterator[tuple[Manifest, Iterator[Member]]]:
    """The manifest and the other members of a file whose checksum is right."""
    progress.begin("Checking", file.stat().st_size)
    with archive.opened(file, progress.advance) as opened:
        members = archive.members(opened)
        first = next(members, None)
        if first is None:
            raise Damaged("it is empty")
        about = manifest.read(first)
        progress.begin("Reading", about.bytes)
        yield about, members


def _allowed(about: Manifest, content: Iterator[Member]) -> Iterator[Member]:
    """Raises `Damaged` for a member that doesn't belong in a backup, is there twice, or is more than the manifest says."""
    files, left, seen = 0, about.bytes, set()
    for member in content:
        files, left = files + 1, left - member.size
        if not ALLOWED.fullmatch(member.name):
            raise Damaged(f"{member.name[:200]!r} in it isn't a file of Tuneboard")
        if member.name in seen:
            raise Damaged(f"{member.name} is in it twice")
        if files > about.files or left < 0:
            raise Damaged("it has more than its manifest says")
        seen.add(member.name)
        yield member
    if DATABASE not in seen:
        raise Damaged("its database is missing")


@contextmanager
def _staging() -> Iterator[Path]:
    """A folder beside the data, for files that become the data by renaming."""
    with tempfile.TemporaryDirectory(prefix="restoring-", dir=settings.VAR, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _unpack(about: Manifest, content: Iterator[Member], staging: Path, progress: Progress) -> None:
    for member in _allowed(about, content):
        path = staging / member.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            while piece := member.file.read(archive.READ_BYTES):
                file.write(piece)
                progress.advance(len(piece))
    os.sync()  # Once: there may be thousands of files.


def _check_server(about: Manifest, target: Database) -> None:
    server = target.server()
    if server is not None and about.server is not None and server < about.server:
        raise Unfit(f"It was made on PostgreSQL {about.server}, and this server is the older version {server}.")


def _check_empty(target: Database) -> None:
    found = ["tables in the database"] if target.has_tables() else []
    found += [str(folder) for name in FOLDERS if any((folder := settings.VAR / name).glob("*"))]
    if found:
        raise Occupied(
            f"There is a site already: {', '.join(found)}. Restore into an empty database and TUNEBOARD_VAR, or put the old data"
            " aside with --force."
        )


def _check_room(about: Manifest) -> None:
    free = shutil.disk_usage(settings.VAR).free
    if about.bytes > free:
        raise OSError(
            f"The backup unpacks to {about.bytes >> 20:,} MiB, but {settings.VAR} has {free >> 20:,} MiB free"
        )


def _replace(target: Database, staging: Path) -> tuple[list[str], int]:
    """Exchange the data; returns where the old data is, and `Restored.unpacked`. If anything fails, the old data is back."""
    aside: Path = settings.VAR / f"replaced-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}"
    with ExitStack() as undo:
        aside.mkdir()
        undo.callback(aside.rmdir)
        kept = target.put_aside(aside.name, undo)
        files = _exchange(staging, aside, undo)
        target.put_back(staging / DATABASE, undo)
        unpacked = _make_current()
        undo.pop_all()
    places = [str(aside)] if files or (kept and Path(kept).parent == aside) else []
    if kept and Path(kept).parent != aside:
        places.append(kept)
    if not (kept or files):
        shutil.rmtree(aside)  # Of a new site, whose secret key nobody used.
    return places, unpacked


def _make_current() -> int:
    """Migrate the restored database, and remove its sessions: who was signed out since would be signed in again.

    It also forgets the objects that it names, whose files were unpacked. They belong to the site that the backup was made of, and
    are never deleted from here. Returns the number of these files.
    """
    try:
        call_command("migrate", verbosity=0, interactive=False)
        import_module(settings.SESSION_ENGINE).SessionStore.get_model_class().objects.all().delete()
        return forget_objects()
    except Error as error:
        raise Trouble(
            f"The restored database can't be used: {one_line(error)} The data from before is back."
        ) from error


def _exchange(staging: Path, aside: Path, undo: ExitStack) -> bool:
    """Move the folders of the backup to their places, and what is there to `aside`; returns whether there were such folders."""
    replaced = [name for name in FOLDERS if (settings.VAR / name).exists()]
    for name in (*FOLDERS, SECRET):
        current, new = settings.VAR / name, staging / name
        if name in replaced or (new.exists() and current.exists()):
            undo.callback(current.rename(aside / name).rename, current)
        if new.exists():
            undo.callback(new.rename(current).rename, new)
    return bool(replaced)
