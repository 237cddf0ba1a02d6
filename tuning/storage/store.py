"""What the rest of Tuneboard asks of the place where files are. A path is one below TUNEBOARD_VAR, wherever the file really is."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol, cast

from django.conf import settings
from django.core.files.storage import Storage, storages

ALIAS = "store"
"""In the setting STORAGES."""


class Written(Protocol):
    """A new file that is written from its beginning."""

    def write(self, data: bytes, /) -> int:
        """Add to it."""

    def flush(self) -> None:
        """Readers see what was written; if the store has tables, once the transaction commits."""

    def close(self) -> None:
        """Nothing more will be written."""


class Prepared(Protocol):
    """A local file that is about to be stored."""

    def add(self, path: Path) -> None:
        """Store it under this path, in the transaction that is going on. Call it before the file is renamed."""


class Moved(Exception):
    """Somebody else has appended to the file meanwhile."""


class Store(Storage):
    """Besides what Django asks of a storage: files that grow, and copies on the machine that works with them."""

    is_shared: ClassVar[bool]
    """Whether other machines read these files. If so, local files are copies, of which only the machine knows that works with them."""

    def opened(self, path: Path) -> BinaryIO:
        """The file, to be read as it is now, and at any place. Raises `FileNotFoundError`, and `NotRegular` if it is a link or the like."""
        raise NotImplementedError

    def length(self, path: Path) -> int | None:
        """Its bytes; None if there is no such file. Raises `NotRegular`."""
        raise NotImplementedError

    def stored(self, path: Path) -> int:
        """How many bytes of it are where every reader finds them."""
        raise NotImplementedError

    def holds(self, path: Path) -> bool:
        """Whether every byte of the local file is stored, perhaps with more after it. Raises `OSError`."""
        raise NotImplementedError

    def append(self, path: Path, start: int, data: bytes) -> None:
        """Write at this byte, and drop what was there from it on. Only one process may append to a file at a time.

        Raises `Moved` if the file doesn't reach to `start`, or somebody else appends.
        """
        raise NotImplementedError

    def written(self, path: Path) -> Written:
        """Begin a new file."""
        raise NotImplementedError

    def prepare(self, path: Path) -> Prepared:
        """Get ready to store a complete local file. Call it outside of the transaction: it may take long."""
        raise NotImplementedError

    def fetch(self, path: Path) -> None:
        """Have a local copy of a file that never changes. Raises `OSError`."""
        raise NotImplementedError

    def restore(self, path: Path) -> None:
        """Have a local copy of a file that grows. One that is ahead of the store stays; any other difference is overwritten."""
        raise NotImplementedError

    def old(self, folder: Path, age: timedelta) -> list[Path]:
        """What is directly in a folder, files and folders, stored or local, and hasn't changed for this long."""
        raise NotImplementedError

    def remove(self, path: Path) -> None:
        """Remove a file, or a folder with all that is in it, and the local copy. What can't be removed here is logged."""
        raise NotImplementedError


def store() -> Store:
    """The one that TUNEBOARD_STORAGE says."""
    return cast("Store", storages[ALIAS])


def name_of(path: Path | str) -> str:
    """The path below TUNEBOARD_VAR. Raises `ValueError` if it isn't below."""
    return (settings.VAR / path).relative_to(settings.VAR).as_posix()
