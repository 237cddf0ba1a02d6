"""Privileges that a confined process gives up: root's, for the most part, and what its user could do to files of the same user's."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys

from tuning.engines.wire.lifeline import die_with

from .calling import check, libc

NOBODYS_ID = 1_900_000_000
"""No user has it. The limit on processes doesn't hold for root, and root may change its files, so a process of root's takes this one."""
DEATH_SIGNAL, DUMPABLE, SECURE_BITS, NO_NEW_PRIVILEGES, AMBIENT, RAISE = 2, 4, 28, 38, 47, 2
NO_SETUID_FIXUP = 4
"""Capabilities don't depend on the id, neither when it changes nor in `access`, by which compilers choose their temporary folder."""
OPEN_FILES = 1
"""CAP_DAC_OVERRIDE: root needs it for its own files under another id. What it may open of them is up to Landlock.

CAP_FOWNER isn't needed: what the process writes is its own. With it, it could change modes and times of root's files.
"""
CAPABILITIES_VERSION = 0x20080522


def gain_none() -> None:
    """Neither this process nor a program that it starts gains privileges, by setuid or otherwise. Landlock and filters require it."""
    if sys.platform.startswith("linux"):
        _call(NO_NEW_PRIVILEGES, 1, 0)


def drop(*, is_root: bool) -> None:
    """Keep no capability, but as root the one to open its files, under another id. Raises `OSError`."""
    if is_root:
        _call(SECURE_BITS, NO_SETUID_FIXUP, 0)
        os.setresuid(NOBODYS_ID, NOBODYS_ID, NOBODYS_ID)
    _keep(1 << OPEN_FILES if is_root else 0)
    if is_root:
        _call(AMBIENT, RAISE, OPEN_FILES)  # Programs that it starts have it, too.
    _call(DUMPABLE, 1, 0)  # Otherwise its entry in /proc isn't its own.


def drop_outside() -> None:
    """Drop what `drop` does, for root in no namespace of its own. A container may lack the right, or the id: root then keeps its own."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        return
    parent = os.getppid() if _ends_with_parent() else None
    try:
        drop(is_root=True)
    except OSError:
        with contextlib.suppress(OSError):
            _keep(1 << OPEN_FILES)
    if parent is not None:
        die_with(parent)  # The kernel forgets it when the id changes.


def _keep(capabilities: int) -> None:
    header = struct.pack("=Ii", CAPABILITIES_VERSION, 0)
    check("Privileges", libc().capset(header, struct.pack("=6I", *[capabilities] * 3, 0, 0, 0)))


def _ends_with_parent() -> bool:
    set_signal = ctypes.c_int()
    check("Privileges", libc().prctl(DEATH_SIGNAL, ctypes.byref(set_signal), 0, 0, 0))
    return set_signal.value == signal.SIGKILL


def _call(option: int, first: int, second: int) -> None:
    check("Privileges", libc().prctl(option, first, second, 0, 0))
