"""Make this machine one of a site's: its workers take what waits there."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import Error, ProgrammingError, connection

from dashboard.hosting import SiteLock, Unavailable
from dashboard.management.working import (
    Workers,
    apart,
    call_machine,
    check_tvm,
    environment,
    ignore_signals,
    let_signals_interrupt,
)
from tuning.actions.machines.registering import NameTaken, Presence, describe, register, register_in_time
from tuning.host import schema, valkey
from tuning.host.reachable import broker_trouble, database_trouble, one_line, wait_for
from tuning.management.plain import PlainCommand
from tuning.models import Beat, Machine, described
from tuning.storage import checking
from tuning.work import copies

LOOK_S = 5.0
"""How often it is looked whether this machine still fits the site."""


class Command(PlainCommand):
    """Starts this machine's workers for the site of DATABASE_URL and REDIS_URL. Ctrl-C stops them."""

    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", help="what this machine is called (default: TUNEBOARD_MACHINE, or its host name)")

        parser.add_argument(
            "--only-devices", action="store_true", help="only the workers of its devices: the others run elsewhere"
        )
        parser.add_argument(
            "--alive", type=Path, metavar="FILE", help="touch it while runs are taken, for health checks"
        )

    def handle(self, *, name: str | None, only_devices: bool, alive: Path | None, **options: Any) -> None:
        """Runs until a signal. Exit status 0 then, 1 if it couldn't join."""
        let_signals_interrupt()
        call_machine(name)
        _check_settings()
        try:
            with SiteLock(settings.VAR) as lock:
                lock.tell(f"the machine {settings.MACHINE}")
                self._run(Workers(environment(), only_devices=only_devices, alive=alive))
        except (Unavailable, NameTaken) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self._say("Stopped.")

    def _run(self, workers: Workers) -> None:
        check_tvm()
        try:
            wait_for(database_trouble, self._say)
            wait_for(self._not_ours, self._say)
            self._register()
            wait_for(broker_trouble, self._say)
            wait_for(checking.trouble, self._say)
            apart(self._describe)
            self._work(workers)
        except KeyboardInterrupt:
            self._say("Stopping.")
            raise
        finally:
            ignore_signals()
            workers.stop()

    def _not_ours(self) -> str | None:
        """Why this machine has to wait; the site learns of it, too, if this code can write its row."""
        trouble = _schema_trouble()
        if trouble:
            with suppress(Error):
                register()
            connection.close()
        return trouble

    def _register(self) -> None:
        try:
            register_in_time(self._say)
        except ProgrammingError as error:
            user = connection.settings_dict["USER"] or "this user"
            raise CommandError(f"{user} may not use the site's tables: {one_line(error)}") from error

    def _describe(self) -> None:
        if trouble := describe():
            raise CommandError(trouble)
        copies.release_left()

    def _work(self, workers: Workers) -> None:
        presence, said, looked, misfit = Presence(self._say), "", 0.0, None
        while True:
            presence.tick()
            if time.monotonic() > looked + LOOK_S:
                looked, misfit = time.monotonic(), _misfit(misfit)
            state = _state(presence.machine, misfit)
            if state != said:
                self._say(state)
            said = state
            if misfit:
                workers.stop()
            else:
                workers.tick(presence.machine, self._say)
            time.sleep(0.5)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _check_settings() -> None:
    """Raises `CommandError` if the site is one that other machines can't reach."""
    if connection.vendor != "postgresql":
        raise CommandError(
            "join needs the site's database: set DATABASE_URL=postgres://USER:PASSWORD@HOST:PORT/NAME. "
            "A site on SQLite is for one machine (docs/fleet.md)."
        )
    if valkey.url(settings.VAR) == settings.REDIS_URL or urlsplit(settings.REDIS_URL).scheme == "unix":
        raise CommandError(
            "join needs the site's broker: set REDIS_URL=redis://:PASSWORD@HOST:PORT/0, or rediss:// with TLS. "
            "The Valkey that `up` starts by itself is for one machine (docs/fleet.md)."
        )


def _schema_trouble() -> str | None:
    """Why this code can't use the site's tables, and what helps; None if it can. Raises `CommandError` without rights on them."""
    try:
        done = schema.applied()
    except ProgrammingError as error:
        user = connection.settings_dict["USER"] or "this user"
        raise CommandError(f"{user} may not use the site's tables: {one_line(error)}") from error
    except Error as error:
        connection.close()
        return f"The site's database can't be used: {one_line(error)}"
    if not any(app == "tuning" for app, _ in done):
        return "The site was never started: its database has no tables. Start it with `up`."
    if schema.unknown(done):
        return f"The site's tables are those of a later version than this one: install {_site_version()} here."
    if schema.known() - done:
        return (
            "The site's tables are being made or upgraded. If that takes long, this version is later than the site's: "
            f"install {_site_version()} here."
        )
    return None


def _site_version() -> str:
    """Tuneboard's version there, as far as the site has told it and this code can read it."""
    try:
        versions = Beat.objects.filter(name=Beat.SWEEP).values_list("versions", flat=True).first() or {}
    except Error:
        connection.close()
        versions = {}
    return (
        f"Tuneboard {versions['tuneboard']} (schema {versions.get('schema')})"
        if versions.get("tuneboard")
        else "the site's"
    )


def _misfit(before: str | None) -> str | None:
    """As `_schema_trouble`. While the database can't be reached nothing is known, so nothing changes."""
    return before if database_trouble() else _schema_trouble()


def _state(machine: Machine | None, misfit: str | None) -> str:
    """What this machine does, in a line."""
    if misfit or machine is None:
        return f"This machine waits. {misfit or 'The site has not heard of it yet.'}"
    if machine.trouble:
        return f"This machine waits. {machine.trouble}"
    if machine.is_draining:
        return f"{machine} is being drained: it takes nothing more."
    return f"{described(machine)} has joined the site and takes work (logs: {settings.VAR / 'logs'}; Ctrl-C to leave)"
