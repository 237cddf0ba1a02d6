"""What a backup asks of a database, whichever it is."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Protocol


class Trouble(Exception):
    """The database can't be copied or replaced; the message says why and what helps."""


class Database(Protocol):
    """The site's database. Every method may raise `Trouble`."""

    vendor: str

    def check_tools(self) -> None:
        """Whether a snapshot can be made or put back."""

    def server(self) -> int | None:
        """The server's major version, if there is a server."""

    def size(self) -> int:
        """About how many bytes a copy takes."""

    def snapshot(self, file: Path) -> AbstractContextManager[str]:
        """Copy the database to the file while others write; gives the alias of a connection that reads the same state."""

    def check_copy(self, file: Path) -> None:
        """Whether the file can become the database."""

    def has_tables(self) -> bool:
        """Whether there is something that would be replaced."""

    def put_aside(self, name: str, undo: ExitStack) -> str | None:
        """Leave an empty database. Returns where the old one is, unless it was empty; `undo` brings it back."""

    def put_back(self, file: Path, undo: ExitStack) -> None:
        """Make the file the database, which is empty now."""
