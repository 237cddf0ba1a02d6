"""Run the whole site on this machine, in the foreground."""

from __future__ import annotations

import http.client
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.urls import reverse

from dashboard.accounts import first_admin, one_time_login_url
from dashboard.assets.collecting import collect
from dashboard.hosting import HEALTH, Address, SiteLock, Unavailable
from tuning.actions import runs
from tuning.actions.machines.registering import NameTaken, Presence, describe, register
from tuning.actions.sweeper import Sweeper
from tuning.engines.wire.lifeline import die_with
from tuning.host import valkey
from tuning.host.devices import REMOTE
from tuning.host.processes import Child, stop
from tuning.host.reachable import broker_trouble, database_trouble, wait_for
from tuning.management.migrated import migrate
from tuning.models import Run
from tuning.queue.celery import COMPILE_QUEUE, EXTRACT_QUEUE, WATCH_QUEUE, WEBHOOK_QUEUE, queue_of
from tuning.storage import checking
from tuning.validation import MACHINE_NAME, NO_MACHINE_NAME, Invalid

DEMO = {"name": "Demo: a small MLP", "network": "mlp", "trials": 64}
START_S = 120.0
"""Seconds that the web process may take to answer its first request."""


class Command(BaseCommand):
    """Migrates, then starts Valkey unless REDIS_URL is set, the web process and the workers. Ctrl-C stops everything."""

    help = __doc__
    requires_system_checks = ()
    """They run in a process that ends, since they load the code of all pages."""

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
        call_machine(name)
        _let_signals_interrupt()
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
        _check_tvm()
        children = self._children(address)
        try:
            self._prepare(children)
            self._start(children["web"], address)
            _apart(partial(self._welcome, address, demo=demo))
            self._watch(list(children.values()))
        except KeyboardInterrupt:
            self._say("Stopping.")
            raise
        finally:
            _stop(children)

    def _children(self, address: Address) -> dict[str, Child]:
        """The processes by name, in the order in which they are started."""
        env = _environment(address)
        commands = {"valkey": valkey.command(settings.VAR)} if _embeds_valkey() else {}
        commands["web"] = [sys.executable, "-m", "dashboard.serve", str(address.socket.fileno())]
        commands |= {f"worker-{device}": _worker(device, queue_of(device)) for device in settings.DEVICES}
        if settings.TRACKERS:
            commands["worker-remote"] = _worker("remote", queue_of(f"{REMOTE}:"), settings.REMOTE_RUNS)
        if settings.WATCH_FOLDERS:
            commands["worker-watch"] = _worker("watch", WATCH_QUEUE, settings.WATCHES)
        for queue in (EXTRACT_QUEUE, COMPILE_QUEUE):
            commands[f"worker-{queue}"] = _worker(queue, f"{queue},{WEBHOOK_QUEUE}")
        inherited = {"web": (address.socket.fileno(),)}
        logs = settings.VAR / "logs"
        return {
            name: Child(name, command, env, logs / f"{name}.log", inherited.get(name, ()))
            for name, command in commands.items()
        }

    def _prepare(self, children: dict[str, Child]) -> None:
        """Prepare database, static files and broker, and start the workers."""
        wait_for(database_trouble, self._say)
        _apart(self._make_ready)
        if "valkey" in children:
            _start_valkey(children["valkey"])
        wait_for(broker_trouble, self._say)
        for name, child in children.items():
            if name not in ("valkey", "web"):
                child.start()

    def _make_ready(self) -> None:
        self.check()
        migrate(self._say, backup=self._back_up)
        try:
            register()
        except NameTaken as error:
            raise CommandError(str(error)) from error
        if trouble := checking.trouble():
            raise CommandError(trouble)
        if advice := checking.advice():
            self._say(advice)
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
        if not address.is_loopback:
            self._say(f"Allowed host names: {', '.join(_allowed_hosts(address))} (set ALLOWED_HOSTS to change them).")
            self._say(
                "This is plain HTTP: in an untrusted network, put an HTTPS proxy in front of it (docs/settings.md)."
            )
        if demo and not Run.everything.exists():
            self._demo(address)
        if trouble := describe():
            self._say(trouble)

    def _demo(self, address: Address) -> None:
        try:
            run = runs.launch(DEMO, first_admin())
        except Invalid as error:
            reasons = "; ".join(error.fields.values())
            self._say(f"Could not queue the demo run: {reasons}")
        else:
            self._say(f"Queued a small demo run: {address.url()}{reverse('run_page', args=[run.pk])}")

    def _watch(self, children: list[Child]) -> None:
        sweeper, presence = Sweeper(self._say), Presence(self._say)
        while True:
            for child in children:
                if message := child.watch():
                    self._say(message)
            presence.tick()
            sweeper.tick()
            time.sleep(0.5)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def call_machine(name: str | None) -> None:
    """Call this machine by the name, if one is given. Raises `CommandError` if no machine can have it."""
    if name is None:
        return
    if not re.fullmatch(MACHINE_NAME, name):
        raise CommandError(f"--name {name}: {NO_MACHINE_NAME}.")
    settings.MACHINE = name


def _let_signals_interrupt() -> None:
    """Handle SIGTERM and SIGHUP like Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with it ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, signal.default_int_handler)


def _stop(children: dict[str, Child]) -> None:
    """Stop Valkey last, since web and workers still need it while they end."""
    # A second Ctrl-C must not leave processes behind; they are killed after a timeout anyway.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stop(child for name, child in children.items() if name != "valkey")
    if "valkey" in children:
        stop([children["valkey"]])
        valkey.clean_up(settings.VAR)


def _apart(step: Callable[[], None]) -> None:
    """Run a step of the start in a process of its own, to free the 50 MB that it takes.

    Raises `CommandError` if it fails, after it has printed the reason.
    """
    connections.close_all()  # Processes can't share connections.
    process = multiprocessing.get_context("fork").Process(target=_do, args=(step, os.getpid()), daemon=True)
    process.start()
    process.join()
    if process.exitcode:
        raise CommandError("The site can't start: see the reason above.")


def _do(step: Callable[[], None], parent: int) -> None:
    die_with(parent)
    try:
        step()
    except CommandError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(1)  # The parent prints that it is stopping.


def _embeds_valkey() -> bool:
    return bool(valkey.url(settings.VAR) == settings.REDIS_URL)


def _start_valkey(child: Child) -> None:
    valkey.prepare(settings.VAR)
    child.start()
    while not valkey.answers(settings.VAR):
        if not child.running:
            raise CommandError(f"The embedded Valkey {child.ending}. The end of {child.log}:\n{child.last_lines()}")
        time.sleep(0.05)


def _check_tvm() -> None:
    """Raises `CommandError` if the installed TVM packages aren't the pinned ones."""
    check = [sys.executable, "-m", "tuning.engines.wire.versions"]
    done = subprocess.run(check, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(done.stderr.strip())


def _environment(address: Address) -> dict[str, str]:
    """The environment of the children: our own, with settings made explicit. The embedded Valkey's URL has a password, which they read themselves."""
    return os.environ | {
        "ALLOWED_HOSTS": ",".join(_allowed_hosts(address)),
        "PYTHONPATH": str(settings.BASE_DIR),
        "PYTHONUNBUFFERED": "1",
        **({} if _embeds_valkey() else {"REDIS_URL": settings.REDIS_URL}),
        "TUNEBOARD_MACHINE": settings.MACHINE,
        "TUNEBOARD_URL": settings.SITE_URL or address.url(),
        "TUNEBOARD_VAR": str(settings.VAR),
    }


def _allowed_hosts(address: Address) -> list[str]:
    """ALLOWED_HOSTS if configured, otherwise this machine's names."""
    if "ALLOWED_HOSTS" in os.environ:
        return list(settings.ALLOWED_HOSTS)
    return list(dict.fromkeys([*settings.ALLOWED_HOSTS, *address.names]))


def _worker(name: str, queues: str, concurrency: int = 1) -> list[str]:
    return [sys.executable, "-m", "tuning.queue.worker", name, queues, "--concurrency", str(concurrency)]


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
