"""Lock files: one process at a time, released by the kernel however the holder ends.

By hand because the `filelock` package needs Python 3.11 and we support 3.10. dashboard/bootstrap.py has its own lock:
it runs before anything but the standard library can be relied on.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_file(path: Path, *, wait: bool = True) -> Iterator[int]:
    """Hold the lock, and remove the file afterwards; gives the file's descriptor, for notes to others.

    Raises `BlockingIOError` if another process holds it and `wait` is false.
    """
    fd = _locked(path, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield fd
    finally:
        path.unlink(missing_ok=True)
        os.close(fd)


def _locked(path: Path, operation: int) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, operation)
        except BaseException:
            os.close(fd)
            raise
        if _is_at(path, fd):
            return fd
        os.close(fd)  # The previous holder removed the file between our open and our lock.


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
