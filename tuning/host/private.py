"""Keeps what Tuneboard writes from other users of the machine: sessions, uploaded models, libraries, logs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

OTHERS = 0o077
"""The permissions of everybody but a file's owner."""


class TooLarge(Exception):
    """What was to be copied has more bytes than allowed. Some of them were written."""


def keep_private(folder: Path) -> None:
    """Close the folder and what is in it to other users, and have this process create its files so from now on.

    This also repairs what earlier versions left open. A folder of another user, or one that all users share, such as /tmp, stays as
    it is.
    """
    os.umask(OTHERS)
    if not is_open(folder) or not _is_own(folder):
        return
    for _, folders, files, parent in os.fwalk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):  # A link, a socket, or what is gone by now.
                _close(name, parent)
    # Last, so that a repair that was interrupted begins again.
    folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~OTHERS)


def kept_secret(path: Path) -> str:
    """A random text that is generated once and that only this user can read. It appears with its content at once, however many ask."""
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent) as file:  # It is made for its owner alone.
            file.write(secrets.token_urlsafe(48))
            file.flush()
            with contextlib.suppress(FileExistsError):
                os.link(file.name, path)
    return path.read_text().strip()


def copied(pieces: Iterable[bytes], path: Path, most: int | None = None) -> tuple[int, str]:
    """Write a new file, which is on the disk when this returns; its size in bytes and SHA-256. Raises `TooLarge`."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as copy:
        for piece in pieces:
            size += len(piece)
            if most is not None and size > most:
                raise TooLarge
            digest.update(piece)
            copy.write(piece)
        copy.flush()
        os.fsync(copy.fileno())
    return size, digest.hexdigest()


def is_open(folder: Path) -> bool:
    """Whether other users may enter the folder."""
    return bool(folder.stat().st_mode & OTHERS)


def _is_own(folder: Path) -> bool:
    state = folder.stat()
    return state.st_uid == os.geteuid() and not state.st_mode & stat.S_ISVTX


def _close(name: str, parent: int) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
    try:
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~OTHERS)
    finally:
        os.close(descriptor)
