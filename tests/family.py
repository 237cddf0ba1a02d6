"""The child processes of a test, and their children."""

from __future__ import annotations

import contextlib

import psutil


def descendants(named: str) -> list[psutil.Process]:
    """The descendants whose command line contains this text. Zombies have no command line."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # also raised for zombies
            if named in " ".join(child.cmdline()):
                found.append(child)
    return found
