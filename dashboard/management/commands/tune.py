"""`manage.py tune`: tune in the foreground, with the same code and database as the site."""

from __future__ import annotations

import json
import logging
import sys
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management import CommandError
from rich.console import Console

from dashboard.management import foreground
from dashboard.management.foreground import Interrupts
from dashboard.presentation.terminal import RunProgress, summary
from tuning.actions import advice, launching, runs
from tuning.actions.machines import placing
from tuning.engines.wire.engines import ENGINES, META_SCHEDULE
from tuning.management.migrated import MigratedCommand
from tuning.models import Run
from tuning.reads import network_list
from tuning.validation import Invalid, OptionDict
from tuning.work.supervisor import supervise

NETWORK = "network_"
"""Prefix of a network's own options in argparse's namespace."""
CHOICES = ("project", "engine", "interpreter", "network", "target", "device", "name")


class Command(MigratedCommand):
    """Exit status: 0 if the run finished or was stopped by Ctrl-C, 1 if it failed, 2 for invalid options."""

    help = "Tune a network in the foreground. Ctrl-C stops the run and keeps its measurements."

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = ", ".join(network["name"] for network in network_list.builtin_networks())
        parser.add_argument("network", help=f"one of: {names}; or the name of an uploaded model")
        parser.add_argument("--engine", default="", help=f"one of: {', '.join(ENGINES)} (default: {META_SCHEDULE})")
        parser.add_argument(
            "--interpreter",
            default="",
            help="the interpreter, by its name in TUNEBOARD_LEGACY_PYTHON, for auto_scheduler and autotvm (default: the only one)",
        )
        parser.add_argument(
            "--target",
            default="this",
            help="`this` machine's CPU, one of TVM's tags, or a target as JSON (default: this)",
        )
        parser.add_argument(
            "--device", default="", help="where to measure: `this machine` (default) or rpc:TRACKER/KEY"
        )
        parser.add_argument("--project", default="", help="the project that it belongs to (default: the first one)")
        parser.add_argument("--name", default="", help="the run's name (default: the network's name and options)")
        for name, owners in _network_options().items():
            about = f"option of {', '.join(owners)}"
            parser.add_argument(f"--{name}", dest=NETWORK + name, default="", help=about, metavar=name.upper())
        parser.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="another way to set an option of the network",
        )
        for option, owners in _tuning_options():
            about = _help(option) + (f" ({', '.join(owners)})" if len(owners) < len(ENGINES) else "")
            parser.add_argument(_flag(option), default="", help=about, metavar=option["type"].upper())
        parser.add_argument("--json", action="store_true", help="print only the run as JSON, at the end")

    def handle(self, *_args: Any, **options: Any) -> None:
        console = foreground.console(sys.stderr if options["json"] else sys.stdout)
        # Without `up` there may be no broker, and nobody is watching.
        logging.getLogger("tuning.notify.announce").setLevel(logging.ERROR)
        run = self._launch(options)
        status = _tune(run, Interrupts(), console)
        shown = Run.objects.select_related("network", "project", "created_by").get(pk=run.pk).to_full_dict()
        if options["json"]:
            self.stdout.write(json.dumps(shown))
        else:
            summary(console, shown)
        if status in (Run.Status.FAILED, Run.Status.INTERRUPTED):
            raise CommandError(f"Run {run.pk} {status}: {shown['error'] or 'no reason recorded'}", returncode=1)

    def _launch(self, options: dict[str, Any]) -> Run:
        data = {name: options[name] for name in CHOICES}
        data |= {option["name"]: given for option, _ in _tuning_options() if (given := options[option["name"]]) != ""}
        given = {name: options[NETWORK + name] for name in _network_options() if options[NETWORK + name]}
        data["network_options"] = given | _pairs(options["option"])
        data["machine"] = _chosen_machine()
        for name, message in advice.check(data, None)["warnings"].items():
            self.stderr.write(f"{name}: {message}")
        try:
            return runs.launch(data, None, enqueue=False)
        except Invalid as error:
            lines = (f"{name}: {message}" for name, message in error.fields.items())
            raise CommandError("\n".join(lines), returncode=2) from error


def _chosen_machine() -> str:
    """What is tuned in the foreground is tuned on this machine, also where there are others."""
    here = foreground.this_machine()
    return here.name if here and placing.is_fleet(here) else placing.ANY


def _tune(run: Run, interrupts: Interrupts, console: Console) -> str:
    """Supervise the run and show the progress; returns the final status."""

    def stop() -> object:
        return runs.stop(run)

    def elsewhere() -> bool:
        return _goes_on_elsewhere(run, interrupts)

    with RunProgress(console, run) as progress:
        foreground.follow(
            lambda: _claim_and_supervise(run.pk, interrupts.shutdown), interrupts, stop, progress.update, elsewhere
        )
    foreground.give_up(run, stop)  # It ended while it waited.
    return run.status


def _goes_on_elsewhere(run: Run, interrupts: Interrupts) -> bool:
    """Whether a worker has taken the run, which this command then only follows."""
    run.refresh_from_db(fields=("status",))
    return run.is_live and not interrupts.shutdown.is_set()


def _claim_and_supervise(key: int, shutdown: threading.Event) -> None:
    run = Run.objects.select_related("network").get(pk=key)
    run.taker = foreground.this_machine()
    if run.wait_and_claim(shutdown):
        supervise(run, shutdown)


def _flag(option: OptionDict) -> str:
    return "--" + option["name"].replace("_", "-")


def _help(option: OptionDict) -> str:
    default = "" if option["default"] is None else f" [{option['default']}]"
    choices = f" {' | '.join(option['choices'])}." if option["choices"] else ""
    return (option["description"] + choices + default).replace("%", "%%")


def _tuning_options() -> list[tuple[OptionDict, list[str]]]:
    """Each option, as the first engine that has it describes it, with the names of all engines that do."""
    found: dict[str, tuple[OptionDict, list[str]]] = {
        option["name"]: (option, list(ENGINES)) for option in launching.budget_options()
    }
    for engine in ENGINES:
        for option in launching.tuning_options(engine):
            found.setdefault(option["name"], (option, []))[1].append(engine)
    return list(found.values())


def _network_options() -> dict[str, list[str]]:
    """The names of the networks that have an option, by its name."""
    owners: dict[str, dict[str, None]] = {}
    for engine in ENGINES:
        for network in network_list.builtin_networks(engine):
            for option in network["options"]:
                owners.setdefault(option["name"], {})[network["name"]] = None
    return {name: list(networks) for name, networks in owners.items()}


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--option {text}: write NAME=VALUE", returncode=2)
        pairs[name] = value
    return pairs
