"""Processes that don't outlive the one that started them, even when that one is killed by SIGKILL (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """From now on the kernel kills this process when its parent, of that pid, ends.

    The signal follows the parent's *thread* that forked, so that thread must live as long as its process.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It ended before we asked.
        os._exit(1)
