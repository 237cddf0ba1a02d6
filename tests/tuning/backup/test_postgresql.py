"""Which of PostgreSQL's programs a backup uses, and what it says if none fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from tuning.backup import postgresql
from tuning.backup.database import Trouble
from tuning.backup.postgresql import Postgresql

pytestmark = pytest.mark.django_db


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a version's programs are looked for; the only place."""
    if connection.vendor != "postgresql":
        pytest.skip("for PostgreSQL only")
    monkeypatch.setattr(postgresql, "FOLDERS", (f"{tmp_path}/*/bin",))
    monkeypatch.setattr(postgresql, "WHEEL", "no_such_package")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(programs: Path, version: int) -> Path:
    program = programs / str(version) / "bin" / "pg_dump"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version}.2 (Debian)'\n")
    program.chmod(0o700)
    return program


def test_it_says_that_there_is_none(programs: Path) -> None:
    with pytest.raises(Trouble, match=r"but there is no pg_dump here\. Install PostgreSQL's client programs"):
        Postgresql().check_tools()
    assert list(programs.iterdir()) == []


def test_it_says_that_the_newest_is_older_than_the_server(programs: Path) -> None:
    install(programs, 9)
    install(programs, 8)
    with pytest.raises(
        Trouble, match=rf"is PostgreSQL {Postgresql().server()}, but the newest pg_dump here is of version 9"
    ):
        Postgresql().check_tools()


def test_the_oldest_that_knows_the_server_is_used(programs: Path) -> None:
    server = Postgresql().server()
    install(programs, server - 1)
    install(programs, server + 1)
    fit = install(programs, server)
    assert Postgresql()._tool("pg_dump") == str(fit)


def test_a_password_is_not_on_the_command_line(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = programs / "show"
    program.write_text('#!/bin/sh\necho "error: $* $PGPASSWORD" >&2\nexit 1\n')
    program.chmod(0o700)
    given = connection.get_connection_params() | {"password": "hush"}
    monkeypatch.setattr(connection, "get_connection_params", lambda: given)
    with pytest.raises(Trouble, match=r"error: --dbname=\S.* hush\.") as caught:
        Postgresql()._run([str(program)])
    assert str(caught.value).count("hush") == 1
