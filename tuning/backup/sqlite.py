"""SQLite: copied with its backup API, replaced by renaming files."""

from __future__ import annotations

import copy
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from django.db import connection, connections

from .database import Trouble

SNAPSHOT = "snapshot"
"""Alias of the connection to the copy."""
SUFFIXES = ("", "-wal", "-shm", "-journal")
WAIT_S = 3.0


class Sqlite:
    """A database in a file."""

    vendor = "sqlite"

    def __init__(self) -> None:
        self.path = Path(str(connection.settings_dict["NAME"]))

    def check_tools(self) -> None:
        """Python has everything."""

    def server(self) -> None:
        return None

    def size(self) -> int:
        return sum(file.stat().st_size for file in self._files())

    @contextmanager
    def snapshot(self, file: Path) -> Iterator[str]:
        """All pages are copied in one step, so it is one state. In WAL mode this makes nobody wait."""
        try:
            with closing(sqlite3.connect(self.path, timeout=30)) as source, closing(sqlite3.connect(file)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise Trouble(f"The database {self.path} can't be copied: {error}.") from error
        connections.databases[SNAPSHOT] = copy.deepcopy(connection.settings_dict) | {"NAME": str(file), "OPTIONS": {}}
        try:
            yield SNAPSHOT
        finally:
            connections[SNAPSHOT].close()
            del connections[SNAPSHOT], connections.databases[SNAPSHOT]

    def check_copy(self, file: Path) -> None:
        try:
            with closing(sqlite3.connect(file)) as opened:
                said = [row[0] for row in opened.execute("PRAGMA quick_check(1)")]
        except sqlite3.Error as error:
            said = [str(error)]
        if said != ["ok"]:
            raise Trouble(f"The database in the backup is damaged: {said[0]}.")

    def has_tables(self) -> bool:
        if not self.path.exists():
            return False
        connection.close()
        try:
            with closing(sqlite3.connect(self.path)) as opened:
                return bool(opened.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        except sqlite3.DatabaseError:
            return True  # Whatever the file is, it isn't ours to replace unasked.

    def put_aside(self, name: str, undo: ExitStack) -> str | None:
        if not self.has_tables():
            self._remove()
            return None
        self._settle()
        aside = self.path.parent / name
        if not aside.exists():  # The database isn't in TUNEBOARD_VAR.
            aside.mkdir()
            undo.callback(aside.rmdir)
        for file in self._files():
            moved = file.rename(aside / file.name)
            undo.callback(moved.rename, file)
        return str(aside / self.path.name)

    def put_back(self, file: Path, undo: ExitStack) -> None:
        undo.callback(self._remove)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, self.path)  # The database may be on another disk than TUNEBOARD_VAR.
        self.path.chmod(0o600)

    def _settle(self) -> None:
        """Write everything into the one file. Raises `Trouble` if another process has the database open."""
        connection.close()
        try:
            with closing(sqlite3.connect(self.path, timeout=WAIT_S)) as opened:
                opened.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as error:
            raise Trouble(
                f"Another process uses the database {self.path}. Stop it first: `up`, or a command such as `tune`."
            ) from error
        except sqlite3.DatabaseError:
            pass  # It isn't a database at all, so nobody has it open.

    def _remove(self) -> None:
        connection.close()
        for file in self._files():
            file.unlink()

    def _files(self) -> list[Path]:
        """Those that exist."""
        files = [self.path.with_name(self.path.name + suffix) for suffix in SUFFIXES]
        return [file for file in files if file.exists()]
