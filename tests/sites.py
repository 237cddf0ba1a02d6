"""Makes sites for tests. To migrate a database and to compress static files takes seconds, so most sites get copies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from tests.live import LiveSite
from tuning.host.postgresql import new_database

PREPARE = """
from django.core.management import call_command
from dashboard.assets.collecting import collect
call_command("migrate", verbosity=0)
collect()
"""


class SiteMaker:
    """Makes sites in folders that it asks for, on this PostgreSQL server or on SQLite. Closing it stops them all."""

    def __init__(self, new_folder: Callable[[], Path], server: str | None) -> None:
        self._new_folder = new_folder
        self._server = server
        self._sites: list[LiveSite] = []

    def empty(self) -> LiveSite:
        """A site whose folder doesn't exist, and whose database has no tables."""
        return self._made(self._next_name(), "template1")

    def prepared(self) -> LiveSite:
        """A site that isn't running, with tables and static files. It has no data, and no secrets yet."""
        site = self._with_database_of(self._model)
        site.var.mkdir(mode=0o700)
        shutil.copytree(self._model.var / "static", site.var / "static", copy_function=os.link)
        for file in self._model.var.glob("tuneboard.sqlite3*"):
            shutil.copy2(file, site.var)
        return site

    def copied(self, model: LiveSite) -> LiveSite:
        """A site with all that this one has. Neither is running."""
        site = self._with_database_of(model)
        shutil.copytree(model.var, site.var)
        return site

    def close(self) -> None:
        for site in self._sites:
            site.close()

    @cached_property
    def _model(self) -> LiveSite:
        """A site that nobody uses."""
        site = self.empty()
        site.manage("shell", "-v", "0", "--no-imports", "-c", PREPARE)
        site.close()
        return site

    def _with_database_of(self, model: LiveSite) -> LiveSite:
        url = model.env.get("DATABASE_URL", "/template1")
        return self._made(self._next_name(), urlsplit(url).path[1:])

    def _next_name(self) -> str:
        return f"site_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}_{len(self._sites)}"

    def _made(self, name: str, template: str) -> LiveSite:
        url = new_database(self._server, name, template) if self._server else None
        self._sites.append(LiveSite(self._new_folder(), url))
        return self._sites[-1]
