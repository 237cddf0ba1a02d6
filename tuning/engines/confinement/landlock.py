"""Landlock: a process gives up access to files, and to TCP, that it doesn't name. It needs no privilege.

Numbers and structures are those of linux/landlock.h. There is no binding for Python that is maintained.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from .calling import check, libc

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System calls, with the same numbers on every architecture."""
ASK_VERSION = 1
PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = (1 << bit for bit in range(4))
REFER, TRUNCATE, IOCTL_DEVICE = (1 << bit for bit in range(13, 16))
MAKE_CHARACTER_DEVICE, MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
ALL_OF_VERSION_1 = (1 << 13) - 1
LOOK = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
"""Rights that a rule about a single file may have."""
BIND_TCP, CONNECT_TCP = 1, 2
TCP_SINCE = 4
OTHERS_SOCKETS, OTHERS_SIGNALS = 1, 2
"""Abstract Unix sockets of, and signals to, processes that aren't confined with this one."""
SCOPES_SINCE = 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The kernel's version of Landlock; 0 if it has none, or it is turned off."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(libc().syscall(CREATE_RULESET, None, 0, ASK_VERSION)))


def restrict(read: Iterable[Path], write: Iterable[Path], *, tcp: bool) -> None:
    """Keep only the access named; paths that don't exist are left out. The process must have given up to gain privileges. Raises `OSError`."""
    known = version()
    rights = _rights(known)
    ruleset = _created(known, rights, tcp=tcp)
    try:
        for path in read:
            _allow(ruleset, path, LOOK & rights)
        for path in write:
            _allow(ruleset, path, rights & ~(MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE))
        check("Landlock", libc().syscall(RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _rights(known: int) -> int:
    """All rights about files that this version knows: what isn't listed stays allowed everywhere."""
    rights = ALL_OF_VERSION_1
    for right, since in ((REFER, 2), (TRUNCATE, 3), (IOCTL_DEVICE, 5)):
        rights |= right if known >= since else 0
    return rights


def _created(known: int, rights: int, *, tcp: bool) -> int:
    network = 0 if tcp or known < TCP_SINCE else BIND_TCP | CONNECT_TCP
    asked = _Ruleset(rights, network, OTHERS_SOCKETS | OTHERS_SIGNALS if known >= SCOPES_SINCE else 0)
    size = 8 if known < TCP_SINCE else 16 if known < SCOPES_SINCE else 24
    return check("Landlock", libc().syscall(CREATE_RULESET, ctypes.byref(asked), size, 0))


def _allow(ruleset: int, path: Path, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, PermissionError):  # What it can't reach needs no rule.
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = _PathBeneath(rights if path.is_dir() else rights & OF_FILES, parent)
            check("Landlock", libc().syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0))
        finally:
            os.close(parent)
