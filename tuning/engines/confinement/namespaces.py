"""Namespaces of its own: a process sees no network, not even this machine's, and has no privilege outside, even as root."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

NEW_NETWORK, NEW_USER = 0x40000000, 0x10000000


def leave_network() -> str | None:
    """Enter a namespace without any network, if this process may; says what is in force now."""
    if not sys.platform.startswith("linux"):
        return None
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    ids = {"uid_map": os.geteuid(), "gid_map": os.getegid()}
    # Only root may make a network namespace, but everybody is root in a user namespace of their own.
    if unshare(NEW_USER | NEW_NETWORK) == 0:
        _keep(ids)
        return "network namespace"
    return "network namespace" if unshare(NEW_NETWORK) == 0 else None


def _keep(ids: dict[str, int]) -> None:
    """User and group are called as before: programs are confused if they are nobody's."""
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    for name, number in ids.items():
        (own / name).write_text(f"{number} {number} 1")
