"""The processes that a test has started, and those that these have."""

from __future__ import annotations

import contextlib

import psutil


def descendants(named: str) -> list[psutil.Process]:
    """Those with the text in their command line. One that has ended has none, though nobody may have reaped it yet."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # ZombieProcess is one
            if named in " ".join(child.cmdline()):
                found.append(child)
    return found
