"""Opens files below a folder in which other processes may write, without following what they left there.

A process that runs what users bring may replace any file of the folder that it writes to: by a link to a file of the site, by a
second name of one, by a pipe. So nothing is decided by a path that is then used again. The file is opened first, without links
on the way, and then its descriptor is looked at.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import BinaryIO, Literal

Mode = Literal["rb", "r+b", "ab", "a+b", "wb", "xb"]
FLAGS = {
    "rb": os.O_RDONLY,
    "r+b": os.O_RDWR,
    "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    "a+b": os.O_RDWR | os.O_APPEND | os.O_CREAT,
    "wb": os.O_WRONLY | os.O_CREAT,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
"""`O_TRUNC` isn't among them: a file is emptied only after it was looked at."""
ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""The third so that a pipe without a writer doesn't hold up the caller."""
ON_THE_WAY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY | getattr(os, "O_PATH", 0)
"""Flags for folders on the way."""
OPENAT2 = 437
"""The system call's number, on every architecture that Python has wheels for."""
BENEATH, NO_SYMLINKS, NO_MAGICLINKS = 0x08, 0x04, 0x02
ANY = sys.maxsize
"""Number of names that a file may have."""
MISSING = (errno.ENOSYS, errno.EPERM)
"""What kernels before 5.6 answer to `openat2`, and filters of containers that don't know it."""
REFUSED = (errno.EISDIR, errno.ELOOP, errno.ENODEV, errno.ENOTDIR, errno.ENXIO, errno.EXDEV)
"""What the kernel answers where a link, a folder, a socket or a device is in the way."""


class NotRegular(OSError):
    """There is something else than a regular file with one name, or a link leads there."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(errno.ELOOP, "it isn't a regular file", str(path))

    def __str__(self) -> str:
        return f"{Path(self.filename).name} can't be read: {self.strerror}."


def open_file(root: Path, path: Path | str, mode: Mode = "rb", *, buffering: int = -1, names: int = 1) -> BinaryIO:
    """Open a file below `root`, which is trusted itself. Raises `NotRegular` and `OSError`.

    A file of a user's own folder may have several `names` (hard links).
    """
    descriptor = _descriptor(root, path, FLAGS[mode] | ALWAYS)
    try:
        _check(descriptor, path, names)
        os.set_blocking(descriptor, True)
        if mode == "wb":
            os.ftruncate(descriptor, 0)
        return os.fdopen(descriptor, mode, buffering)
    except BaseException:
        os.close(descriptor)
        raise


def stat_file(root: Path, path: Path | str) -> os.stat_result:
    """What `os.stat` says of a file below `root`. Raises `NotRegular` and `OSError`."""
    with open_file(root, path) as file:
        return os.fstat(file.fileno())


def _check(descriptor: int, path: Path | str, names: int) -> None:
    """A file that was removed meanwhile has no name, and is as good as before."""
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > names:
        raise NotRegular(path)


def _descriptor(root: Path, path: Path | str, flags: int) -> int:
    parts = _parts(root, path)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _open(folder, parts, flags)
    except OSError as error:
        if error.errno in REFUSED:
            raise NotRegular(path) from error
        raise type(error)(error.errno, os.strerror(error.errno or 0), str(path)) from error
    finally:
        os.close(folder)


def _parts(root: Path, path: Path | str) -> Sequence[str]:
    """The names on the way from `root`. Raises `NotRegular` for a path that leads elsewhere."""
    whole = root / path
    parts = whole.relative_to(root).parts if whole.is_relative_to(root) else ()
    if not parts or ".." in parts or "\0" in str(whole):
        raise NotRegular(path)
    return parts


def _open(folder: int, parts: Sequence[str], flags: int) -> int:
    if sys.platform == "linux":
        try:
            return _openat2(folder, parts, flags)
        except OSError as error:
            if error.errno not in MISSING:
                raise
    return _walk(folder, parts, flags)


class _How(ctypes.Structure):
    """`struct open_how`."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _openat2(folder: int, parts: Sequence[str], flags: int) -> int:
    how = _How(flags, 0o666 if flags & os.O_CREAT else 0, BENEATH | NO_SYMLINKS | NO_MAGICLINKS)
    name, size = os.fsencode("/".join(parts)), ctypes.c_size_t(ctypes.sizeof(how))
    while (opened := _system_call()(ctypes.c_long(OPENAT2), folder, name, ctypes.byref(how), size)) < 0:
        if (number := ctypes.get_errno()) != errno.EINTR:
            raise OSError(number, os.strerror(number))
    return int(opened)


@cache
def _system_call() -> Callable[..., int]:
    """The C library's `syscall`; it has no `openat2` itself."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call


def _walk(folder: int, parts: Sequence[str], flags: int) -> int:
    """Folder by folder, where there is no `openat2`."""
    *folders, name = parts
    with ExitStack() as opened:
        for part in folders:
            folder = os.open(part, ON_THE_WAY, dir_fd=folder)
            opened.callback(os.close, folder)
        return os.open(name, flags, 0o666, dir_fd=folder)
