"""Calls of the C library for which Python has no function."""

from __future__ import annotations

import ctypes
import os


def libc() -> ctypes.CDLL:
    """The C library, whose errors `check` raises."""
    return ctypes.CDLL(None, use_errno=True)


def check(what: str, result: int) -> int:
    """Return the result of a call. Raises the `OSError` of a call that failed, whose text begins with `what`."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
