"""Files in TUNEBOARD_VAR, which one machine can read."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from tuning import beneath

from .store import Prepared, Store, Written

logger = logging.getLogger(__name__)


class LocalStore(Store):
    """There are no copies: what engines write is what pages read."""

    is_shared = False

    def opened(self, path: Path) -> BinaryIO:
        return open_here(path)

    def length(self, path: Path) -> int | None:
        return size_here(path)

    def stored(self, path: Path) -> int:
        return self.length(path) or 0

    def append(self, path: Path, start: int, data: bytes) -> None:
        """It is on the disk when this returns."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_here(path, "xb" if size_here(path) is None else "r+b") as file:
            file.seek(start)
            file.truncate()
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def written(self, path: Path) -> Written:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open_here(path, "wb")

    def prepare(self, path: Path) -> Prepared:  # noqa: ARG002
        return _Renamed()

    def holds(self, path: Path) -> bool:  # noqa: ARG002
        """It is where it is stored."""
        return True

    def fetch(self, path: Path) -> None:
        """It is there."""

    def restore(self, path: Path) -> None:
        """It is there."""

    def old(self, folder: Path, age: timedelta) -> list[Path]:
        return old_here(folder.glob("*"), age)

    def remove(self, path: Path) -> None:
        remove_here(path)

    def get_modified_time(self, name: str) -> datetime:
        changed = beneath.stat_file(settings.VAR, name).st_mtime
        return datetime.fromtimestamp(changed, tz=timezone.utc)


class _Renamed:
    """Whoever prepared the file renames it."""

    def add(self, path: Path) -> None:
        """Nothing is left to do."""


def open_here(path: Path, mode: beneath.Mode = "rb") -> BinaryIO:
    """Open a local file, in whose folder an engine or a compiler may have left anything. Raises `beneath.NotRegular` and `OSError`."""
    return beneath.open_file(settings.VAR, path, mode)


def size_here(path: Path) -> int | None:
    """Bytes of a local file; None if there is none. Raises `beneath.NotRegular`."""
    try:
        return beneath.stat_file(settings.VAR, path).st_size
    except FileNotFoundError:
        return None


def old_here(paths: Iterable[Path], age: timedelta) -> list[Path]:
    """Those local files and folders that haven't changed for this long."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            if time.time() - path.lstat().st_mtime > age.total_seconds():
                found.append(path)
    return found


def remove_here(path: Path) -> None:
    """Remove a local file or folder, if there is one. One that can't be removed is logged: nothing refers to it any more."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("%s isn't needed any more, but couldn't be removed: %s", path, error)
