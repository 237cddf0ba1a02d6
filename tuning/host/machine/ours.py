"""The processes on this machine that work for the site: what its parent process has started, and commands in the foreground."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tuning.host.locks import lock_file

COMMANDS = "foreground"
"""The folder in the data folder that has a locked file for each command, named by its process."""


@contextmanager
def working_for(data: Path) -> Iterator[None]:
    """Meanwhile this process and what it starts are processes of the site with this data folder."""
    folder = data / COMMANDS
    folder.mkdir(exist_ok=True)
    with lock_file(folder / str(os.getpid())):
        yield


def families(data: Path) -> Iterator[list[psutil.Process]]:
    """This process and what it has started, then each command with what that has started."""
    mine = _family(psutil.Process())
    yield mine
    for command in _commands(data):
        if command not in mine:
            with suppress(psutil.Error):
                yield _family(command)


def _family(first: psutil.Process) -> list[psutil.Process]:
    return [first, *first.children(recursive=True)]


def _commands(data: Path) -> Iterator[psutil.Process]:
    for path in (data / COMMANDS).glob("*"):
        try:
            with lock_file(path, wait=False):
                pass  # The command was killed. Its file is removed.
        except OSError:  # It is locked, or another user's.
            with suppress(psutil.Error, ValueError):
                yield psutil.Process(int(path.name))
