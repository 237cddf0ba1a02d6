"""`manage.py tune`: a run in the foreground, by the same path and in the same database as from the page."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management import CommandError
from django.db import InterfaceError, OperationalError, connection
from rich.console import Console

from dashboard.management import foreground
from dashboard.management.foreground import POLL_S, Wishes
from dashboard.presentation.terminal import RunProgress, summary
from tuning.actions import advice, launching, runs
from tuning.management.migrated import MigratedCommand
from tuning.models import Run
from tuning.reads import network_list
from tuning.validation import Conflict, Invalid, OptionDict
from tuning.work.supervisor import supervise

NETWORK = "network_"
"""Begins the names under which argparse keeps a network's own options."""


class Command(MigratedCommand):
    """Exit status: 0 when the run finished or was stopped by Ctrl-C, 1 when it failed, 2 for bad options."""

    help = "Tune a network in the foreground. Ctrl-C stops the run; what was measured is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The network, its options, and every tuning option under its own name."""
        names = ", ".join(network["name"] for network in network_list.builtin_networks())
        parser.add_argument("network", help=f"one of: {names}, or the name of an uploaded one")
        parser.add_argument("--target", default="this", help="this machine (`this`), a tag, or a target's JSON")
        parser.add_argument("--device", default="", help="where to measure: this machine, or rpc:TRACKER/KEY")
        parser.add_argument("--name", default="", help="the run's name")
        for name, owners in _network_options().items():
            about = f"of {', '.join(owners)}"
            parser.add_argument(f"--{name}", dest=NETWORK + name, default="", help=about, metavar=name.upper())
        parser.add_argument(
            "--option", action="append", default=[], metavar="NAME=VALUE", help="of the network, as well"
        )
        for option in (*launching.budget_options(), *launching.tuning_options()):
            parser.add_argument(_flag(option), default="", help=_help(option), metavar=option["type"].upper())
        parser.add_argument("--json", action="store_true", help="print the run as JSON at the end, and nothing else")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Launch, watch, report."""
        console = foreground.console(sys.stderr if options["json"] else sys.stdout)
        # Without `up` there is no broker, and nobody needs to watch.
        logging.getLogger("tuning.notify.announce").setLevel(logging.ERROR)
        run = self._launch(options)
        status = _tune(run, Wishes(), console)
        shown = Run.objects.select_related("network", "created_by").get(pk=run.pk).to_full_dict()
        if options["json"]:
            self.stdout.write(json.dumps(shown))
        else:
            summary(console, shown)
        if status in (Run.Status.FAILED, Run.Status.INTERRUPTED):
            raise CommandError(f"Run {run.pk} {status}: {shown['error'] or 'no reason recorded'}", returncode=1)

    def _launch(self, options: dict[str, Any]) -> Run:
        named = [option["name"] for option in (*launching.budget_options(), *launching.tuning_options())]
        data = {name: options[name] for name in ("network", "target", "device", "name", *named)}
        given = {name: options[NETWORK + name] for name in _network_options() if options[NETWORK + name]}
        data["network_options"] = given | _pairs(options["option"])
        for name, message in advice.check(data)["warnings"].items():
            self.stderr.write(f"{name}: {message}")
        try:
            return runs.launch(data, None, enqueue=False)
        except Invalid as error:
            lines = (f"{name}: {message}" for name, message in error.fields.items())
            raise CommandError("\n".join(lines), returncode=2) from error


def _tune(run: Run, wishes: Wishes, console: Console) -> str:
    """Supervise in a thread, so that this one can show the progress; gives the status at the end."""
    worker = threading.Thread(target=_claim_and_supervise, args=(run.pk, wishes.shutdown), name="supervisor")
    worker.start()
    with RunProgress(console, run) as progress:
        while worker.is_alive() or _goes_on_elsewhere(run, wishes):
            try:
                wishes.carry_out(lambda: runs.stop(run))
                progress.update()
            except (OperationalError, InterfaceError):
                connection.close()  # the supervisor says so, and goes on trying
            time.sleep(POLL_S)
    run.refresh_from_db()
    if run.status == Run.Status.QUEUED:  # ended while it waited, and nobody else was told of it
        with contextlib.suppress(Conflict):
            runs.stop(run)
    return run.status


def _goes_on_elsewhere(run: Run, wishes: Wishes) -> bool:
    """Whether a worker took the run, and this command is to follow it still."""
    run.refresh_from_db(fields=("status",))
    return run.is_live and not wishes.shutdown.is_set()


def _claim_and_supervise(key: int, shutdown: threading.Event) -> None:
    try:
        run = Run.objects.select_related("network").get(pk=key)
        if run.wait_and_claim(shutdown):
            supervise(run, shutdown)
    finally:
        connection.close()


def _flag(option: OptionDict) -> str:
    return "--" + option["name"].replace("_", "-")


def _help(option: OptionDict) -> str:
    default = "" if option["default"] is None else f" [{option['default']}]"
    choices = f" {' | '.join(option['choices'])}." if option["choices"] else ""
    return (option["description"] + choices + default).replace("%", "%%")


def _network_options() -> dict[str, list[str]]:
    """The networks that have an option, by the option's name."""
    owners: dict[str, list[str]] = {}
    for network in network_list.builtin_networks():
        for option in network["options"]:
            owners.setdefault(option["name"], []).append(network["name"])
    return owners


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--option {text}: write NAME=VALUE", returncode=2)
        pairs[name] = value
    return pairs
