"""Run the whole site on this machine, in the foreground."""

from __future__ import annotations

import http.client
import os
import sys
import time
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.urls import reverse

from dashboard.accounts import first_admin, one_time_login_url
from dashboard.assets.collecting import collect
from dashboard.hosting import HEALTH, Address, SiteLock, Unavailable
from dashboard.management.working import (
    Workers,
    apart,
    call_machine,
    check_tvm,
    environment,
    ignore_signals,
    let_signals_interrupt,
)
from tuning.actions import runs
from tuning.actions.machines.registering import NameTaken, Presence, register_in_time
from tuning.actions.sweeper import Sweeper
from tuning.host import valkey
from tuning.host.processes import Child, stop
from tuning.host.reachable import broker_trouble, database_trouble, wait_for
from tuning.management.migrated import CHECKS, migrate
from tuning.management.plain import PlainCommand
from tuning.models import Run
from tuning.storage import checking
from tuning.validation import Invalid
from tuning.work import copies

DEMO = {"name": "Demo: a small MLP", "network": "mlp", "trials": 64}
START_S = 120.0
"""Seconds that the web process may take to answer its first request."""


class Command(PlainCommand):
    """Migrates, then starts Valkey unless REDIS_URL is set, the web process and the workers. Ctrl-C stops everything."""

    help = __doc__
    requires_system_checks = ()
    """They run in a process that ends: what they load would stay in memory."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)"
        )
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--name", help="what this machine is called (default: TUNEBOARD_MACHINE, or its host name)")
        parser.add_argument("--no-demo", action="store_true", help="don't queue a demo run if there are no runs yet")
        parser.add_argument(
            "--no-backup", action="store_true", help="upgrade the database of an earlier version without a backup"
        )

    def handle(self, *, host: str, port: int, name: str | None, no_demo: bool, no_backup: bool, **options: Any) -> None:
        """Runs until a signal. Exit status 0 then, 1 if it couldn't start."""
        let_signals_interrupt()
        call_machine(name)
        self._back_up = not no_backup
        try:
            with SiteLock(settings.VAR) as lock:
                address = Address.bind(host, port)
                lock.tell(address.url())
                with address.socket:
                    self._run(address, demo=not no_demo)
        except (Unavailable, valkey.UnsafeFolder) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self._say("Stopped.")

    def _run(self, address: Address, *, demo: bool) -> None:
        check_tvm()
        children, workers = self._children(address), Workers(_environment(address))
        try:
            self._prepare(children)
            workers.start()
            self._start(children["web"], address)
            apart(partial(self._welcome, address, demo=demo))
            self._watch(list(children.values()), workers)
        except KeyboardInterrupt:
            self._say("Stopping.")
            raise
        finally:
            _stop(children, workers)

    def _children(self, address: Address) -> dict[str, Child]:
        """The processes by name, in the order in which they are started."""
        env = _environment(address)
        commands = {"valkey": valkey.command(settings.VAR)} if _embeds_valkey() else {}
        commands["web"] = [sys.executable, "-m", "dashboard.serve", str(address.socket.fileno())]
        inherited = {"web": (address.socket.fileno(),)}
        logs = settings.VAR / "logs"
        return {
            name: Child(name, command, env, logs / f"{name}.log", inherited.get(name, ()))
            for name, command in commands.items()
        }

    def _prepare(self, children: dict[str, Child]) -> None:
        """Prepare database, static files and broker."""
        wait_for(database_trouble, self._say)
        apart(self._make_ready)
        if "valkey" in children:
            _start_valkey(children["valkey"])
        wait_for(broker_trouble, self._say)

    def _make_ready(self) -> None:
        self.check(tags=CHECKS)
        migrate(self._say, backup=self._back_up)
        try:
            register_in_time(self._say)
        except NameTaken as error:
            raise CommandError(str(error)) from error
        if trouble := checking.trouble():
            raise CommandError(trouble)
        if advice := checking.advice():
            self._say(advice)
        copies.release_left()
        collect()

    def _start(self, web: Child, address: Address) -> None:
        """Start the web process and wait until it answers."""
        web.start()
        deadline = time.monotonic() + START_S
        while not (answer := _health(address)):
            if not web.running:
                raise CommandError(f"The web process {web.ending}. The end of {web.log}:\n{web.last_lines()}")
            if time.monotonic() > deadline:
                raise CommandError(f"The web process doesn't answer. The end of {web.log}:\n{web.last_lines()}")
            time.sleep(0.1)
        if answer != 200:
            self._say(f"The site's health check answers {answer}: see {address.url()}{HEALTH}")

    def _welcome(self, address: Address, *, demo: bool) -> None:
        minutes = settings.SESAME_MAX_AGE // 60
        self._say(f"Tuneboard is ready at {address.url()} (logs: {settings.VAR / 'logs'}; Ctrl-C to stop)")
        self._say(f"Sign in, once and within {minutes} minutes: {one_time_login_url(first_admin(), address.url())}")
        self._say("For another login URL: manage.py login_url")
        if os.geteuid() == 0:
            self._say("Warning: this runs as root. Use a user of its own (docs/security.md#a-user-of-its-own).")
        if not address.is_loopback:
            self._say(f"Allowed host names: {', '.join(_allowed_hosts(address))} (set ALLOWED_HOSTS to change them).")
            self._say(
                "This is plain HTTP: in an untrusted network, put an HTTPS proxy in front of it (docs/settings.md)."
            )
        if demo and not Run.everything.exists():
            self._demo(address)

    def _demo(self, address: Address) -> None:
        try:
            run = runs.launch(DEMO, first_admin())
        except Invalid as error:
            reasons = "; ".join(error.fields.values())
            self._say(f"Could not queue the demo run: {reasons}")
        else:
            self._say(f"Queued a small demo run: {address.url()}{reverse('run_page', args=[run.pk])}")

    def _watch(self, children: list[Child], workers: Workers) -> None:
        sweeper, presence = Sweeper(self._say), Presence(self._say)
        while True:
            for child in children:
                if message := child.watch():
                    self._say(message)
            presence.tick()
            workers.tick(presence.machine, self._say)
            sweeper.tick()
            time.sleep(0.5)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _stop(children: dict[str, Child], workers: Workers) -> None:
    """Stop Valkey last, since web and workers still need it while they end."""
    ignore_signals()
    stop([*workers.working(), children["web"]])
    if "valkey" in children:
        stop([children["valkey"]])
        valkey.clean_up(settings.VAR)


def _embeds_valkey() -> bool:
    return bool(valkey.url(settings.VAR) == settings.REDIS_URL)


def _start_valkey(child: Child) -> None:
    valkey.prepare(settings.VAR)
    child.start()
    while not valkey.answers(settings.VAR):
        if not child.running:
            raise CommandError(f"The embedded Valkey {child.ending}. The end of {child.log}:\n{child.last_lines()}")
        time.sleep(0.05)


def _environment(address: Address) -> dict[str, str]:
    """The environment of the children. The embedded Valkey's URL has a password, which they read themselves."""
    return environment() | {
        "ALLOWED_HOSTS": ",".join(_allowed_hosts(address)),
        **({} if _embeds_valkey() else {"REDIS_URL": settings.REDIS_URL}),
        "TUNEBOARD_URL": settings.SITE_URL or address.url(),
    }


def _allowed_hosts(address: Address) -> list[str]:
    """ALLOWED_HOSTS if configured, otherwise this machine's names."""
    if "ALLOWED_HOSTS" in os.environ:
        return list(settings.ALLOWED_HOSTS)
    return list(dict.fromkeys([*settings.ALLOWED_HOSTS, *address.names]))


def _health(address: Address) -> int | None:
    """HTTP status of the health check; None if nothing answers."""
    place = address.socket.getsockname()
    host = "127.0.0.1" if place[0] == "0.0.0.0" else "::1" if place[0] == "::" else place[0]  # noqa: S104 - compared, not bound
    connection = http.client.HTTPConnection(host, address.port, timeout=2)
    try:
        connection.request("GET", HEALTH, headers={"Host": _allowed_hosts(address)[0]})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
