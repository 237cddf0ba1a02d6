"""Child processes that end with their parent, even if it is killed by SIGKILL (Linux only)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_SERVER = "TUNEBOARD_FORK_SERVER"
"""Environment variable: the pid of the fork server that set it, and from which this process may have been forked."""


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent, whose pid is given, ends.

    The kernel watches the *thread* that forked, so that thread must live as long as the parent.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It ended before the call above.
        os._exit(1)


def become_fork_server() -> None:
    """Have the processes that will be forked from this one know it by `die_with_fork_server`."""
    os.environ[_SERVER] = str(os.getpid())


def die_with_fork_server() -> None:
    """As `die_with` for the fork server from which this process was forked, even if the server has ended already."""
    die_with(int(os.environ.get(_SERVER, os.getppid())))
