"""The backup before an upgrade of the database."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

from django.conf import settings

from .contents import FOLDERS
from .database import Trouble
from .making import Made, Progress, back_up
from .vendors import database

FOLDER = "backups"
"""In TUNEBOARD_VAR."""
PREFIX = "before-upgrade-"
KEPT = 3
"""Backups of earlier upgrades are removed after the upgrade, except for the latest ones."""
PACKED = 3
"""What is backed up takes at most about a third of its size; the database is also copied once before it is packed."""


def save() -> tuple[Path, Made]:
    """Back up the site before its database is upgraded. Raises `Trouble`, or `OSError`."""
    folder: Path = settings.VAR / FOLDER
    folder.mkdir(exist_ok=True)
    _check_room(folder)
    path = folder / f"{PREFIX}{datetime.now(timezone.utc):%Y%m%d-%H%M%S}.tar.zst"
    return path, back_up(path, Progress())


def tidy() -> None:
    """Remove all but the latest few of these backups."""
    for path in sorted((settings.VAR / FOLDER).glob(f"{PREFIX}*.tar.zst"))[:-KEPT]:
        path.unlink()


def _check_room(folder: Path) -> None:
    copy = database().size()
    needed = copy + (copy + sum(map(_size, FOLDERS))) // PACKED
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise Trouble(f"It needs about {_mib(needed)}, and {folder} has {_mib(free)} free.")


def _size(name: str) -> int:
    return sum(path.lstat().st_size for path in (settings.VAR / name).rglob("*"))


def _mib(size: int) -> str:
    return f"{-(-size >> 20):,} MiB"
