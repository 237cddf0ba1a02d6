"""Child processes that end with their parent, even if it is killed by SIGKILL (Linux only)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent, whose pid is given, ends.

    The kernel watches the *thread* that forked, so that thread must live as long as the parent.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It ended before the call above.
        os._exit(1)
