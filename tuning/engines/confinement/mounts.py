"""The file system as a process sees it in a mount namespace of its own: sockets are covered, and only its own folders can be changed.

Landlock says which files are opened. It doesn't cover what changes a file without opening it: its mode, owner, times and extended
attributes. On a mount that is read-only nothing of that can be changed. Numbers are those of linux/mount.h and linux/fcntl.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from .calling import check, libc

OPEN_TREE, MOVE_MOUNT, SET_ATTRIBUTES = 428, 429, 442
"""System calls, with the same numbers on every architecture. The last came with Linux 5.12, before Landlock."""
CURRENT_FOLDER, EMPTY_PATH, WHOLE_TREE = -100, 0x1000, 0x8000
CLONE, MOVE_OPENED = 1, 4
READ_ONLY, NO_SETUID, NO_DEVICES = 1, 2, 4
"""The same as flags of mount(2) and as attributes of mount_setattr(2)."""
BIND, RECURSIVE, REMOUNT, PRIVATE = 4096, 16384, 32, 1 << 18
DEVICES, PROCESSES, SHARED_MEMORY = Path("/dev"), Path("/proc"), Path("/dev/shm")  # noqa: S108 - covered, not written to
SMALL = "size=16m,nr_inodes=4096"
COVERED = {
    Path("/run"): SMALL,
    Path("/tmp"): SMALL,  # noqa: S108
    Path("/var/tmp"): SMALL,  # noqa: S108
    SHARED_MEMORY: "mode=1777,size=64m,nr_inodes=4096",
}
"""Folders where servers have their sockets, to which Landlock can't forbid to connect, and where processes leave shared memory.

OpenMP registers its library in shared memory and Python its semaphores, in a page each. 64 MiB are what Docker gives a container.
"""


def cover(needed: list[Path]) -> None:
    """Cover the folders with empty ones in memory, and show again what is needed of them. `/proc` shows this namespace's processes."""
    place = Path.cwd()
    for folder, options in COVERED.items():
        if folder.is_symlink() or not folder.is_dir():
            continue
        inside = {path for path in (*needed, place) if folder in path.parents and path.exists()}
        opened = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in _outermost(inside)]
        _mount("tmpfs", str(folder), "tmpfs", NO_SETUID | NO_DEVICES, options)
        for path, descriptor in opened:
            _make_like(path, descriptor)
            _mount(f"/proc/self/fd/{descriptor}", str(path), None, BIND | RECURSIVE)
            os.close(descriptor)
    with contextlib.suppress(OSError):  # Where parts of /proc are hidden, as in containers, it stays as it is.
        _mount("proc", "/proc", "proc", NO_SETUID | NO_DEVICES)
        _protect_machine()
    os.chdir(place)


def make_read_only(writable: Iterable[Path]) -> None:
    """Forbid to change anything but what is below `writable`, in shared memory, and of processes. Raises `OSError`.

    What stays writable is copied before, and then laid over itself. Devices work on read-only mounts, but not on those without devices.
    """
    place = Path.cwd()
    kept = dict.fromkeys((PROCESSES, SHARED_MEMORY, *writable), NO_SETUID | NO_DEVICES)
    attributes = {path.resolve(): kept[path] for path in kept if path.exists()} | {DEVICES: READ_ONLY | NO_SETUID}
    trees = {path: _copy_of(path) for path in sorted(attributes)}  # What contains others comes first.
    everything = os.open("/", os.O_PATH | os.O_CLOEXEC)
    _set(everything, READ_ONLY | NO_SETUID | NO_DEVICES)
    os.close(everything)
    for path, tree in trees.items():
        _set(tree, attributes[path])
        _call(MOVE_MOUNT, tree, b"", CURRENT_FOLDER, os.fsencode(path), MOVE_OPENED)
        os.close(tree)
    os.chdir(place)


def _copy_of(path: Path) -> int:
    """A descriptor of a copy of the mounts at and below the path, which isn't mounted anywhere."""
    return _call(OPEN_TREE, CURRENT_FOLDER, os.fsencode(path), CLONE | WHOLE_TREE | os.O_CLOEXEC)


def _set(tree: int, attributes: int) -> None:
    """Set the attributes of all mounts of the tree, and keep what is mounted elsewhere from appearing here."""
    wanted = struct.pack("=4Q", attributes, 0, PRIVATE, 0)
    _call(SET_ATTRIBUTES, tree, b"", EMPTY_PATH | WHOLE_TREE, wanted, len(wanted))


def _protect_machine() -> None:
    """What /proc has besides processes, such as the kernel's settings, can only be read. Raises `OSError`."""
    for path in Path("/proc").iterdir():
        if not path.name.isdecimal() and not path.is_symlink() and (path.is_dir() or os.access(path, os.W_OK)):
            _mount(str(path), str(path), None, BIND | RECURSIVE)
            _mount(str(path), str(path), None, BIND | REMOUNT | READ_ONLY | NO_SETUID | NO_DEVICES)


def _outermost(paths: set[Path]) -> list[Path]:
    return sorted(path for path in paths if not any(other in path.parents for other in paths))


def _make_like(path: Path, descriptor: int) -> None:
    """An empty file or folder to mount on."""
    if Path(f"/proc/self/fd/{descriptor}").is_dir():
        path.mkdir(parents=True, exist_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    check("Mounts", libc().mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3]))


def _call(number: int, *arguments: int | bytes) -> int:
    words = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    return check("Mounts", libc().syscall(ctypes.c_long(number), *words))
