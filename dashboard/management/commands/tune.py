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
from dashboard.presentation.gaining import words
from dashboard.presentation.terminal import RunProgress, summary
from tuning.actions import advice, launching, runs
from tuning.actions.machines import placing
from tuning.engines.wire.engines import ENGINES, META_SCHEDULE
from tuning.host.reachable import broker_trouble
from tuning.management.migrated import MigratedCommand
from tuning.models import Machine, Run
from tuning.queue import jobs
from tuning.reads import network_list
from tuning.reads.gaining import verdict
from tuning.validation import Invalid, OptionDict
from tuning.work.supervisor import supervise

NETWORK = "network_"
"""Prefix of a network's own options in argparse's namespace."""
CHOICES = ("project", "engine", "interpreter", "network", "target", "device", "machines", "priority", "name")


class Command(MigratedCommand):
    """Exit status: 0 if the run finished or was stopped by Ctrl-C, 1 if it failed, 2 for invalid options."""

    help = "Tune a network, in the foreground or on another of the site's machines. Ctrl-C stops the run and keeps its measurements."

    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_what(parser)
        _add_where_and_when(parser)
        parser.add_argument("--project", default="", help="the project that it belongs to (default: the first one)")
        parser.add_argument("--name", default="", help="the run's name (default: the network's name and options)")
        _add_options(parser)
        parser.add_argument("--json", action="store_true", help="print only the run as JSON, at the end")

    def handle(self, *_args: Any, **options: Any) -> None:
        console = foreground.console(sys.stderr if options["json"] else sys.stdout)
        # Without `up` there may be no broker, and nobody is watching.
        logging.getLogger("tuning.notify.announce").setLevel(logging.ERROR)
        in_front = _is_here(options["machine"])
        run, interrupts = self._launch(options, in_front=in_front)
        status = _follow(run, interrupts, console, in_front=in_front)
        run = Run.objects.select_related("network", "project", "created_by", "machine").get(pk=run.pk)
        shown = run.to_full_dict()
        if options["json"]:
            self.stdout.write(json.dumps(shown))
        else:
            summary(console, shown)
            for sentence in words.sentences(verdict(run, None)):
                console.print(sentence)
        if status in (Run.Status.FAILED, Run.Status.INTERRUPTED):
            raise CommandError(f"Run {run.pk} {status}: {shown['error'] or 'no reason recorded'}", returncode=1)

    def _launch(self, options: dict[str, Any], *, in_front: bool) -> tuple[Run, Interrupts]:
        """The run, which Ctrl-C stops as soon as it is stored: nobody would take it."""
        data = {name: options[name] for name in CHOICES}
        data |= {option["name"]: given for option, _ in _tuning_options() if (given := options[option["name"]]) != ""}
        given = {name: options[NETWORK + name] for name in _network_options() if options[NETWORK + name]}
        data["network_options"] = given | _pairs(options["option"])
        try:
            data["machine"] = _here() if in_front else options["machine"]
            checked = advice.check(data, None)
            for name, message in checked["warnings"].items():
                self.stderr.write(f"{name}: {message}")
            if checked["first_pass"]:
                self.stderr.write(checked["first_pass"])
            _check_broker(data["machines"], in_front=in_front)
            interrupts = Interrupts()
            return runs.launch(data, None, enqueue=not in_front), interrupts
        except Invalid as error:
            lines = (f"{name}: {message}" for name, message in error.fields.items())
            raise CommandError("\n".join(lines), returncode=2) from error


def _add_what(parser: ArgumentParser) -> None:
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


def _add_where_and_when(parser: ArgumentParser) -> None:
    parser.add_argument("--device", default="", help="where to measure: `this machine` (default) or rpc:TRACKER/KEY")
    parser.add_argument(
        "--machine",
        default="",
        metavar="NAME",
        help=f"the site's machine that tunes, or `{placing.ANY}` that fits. One of its workers takes the run, and this command "
        "follows it (default: this machine, in the foreground)",
    )
    parser.add_argument(
        "--machines",
        default="1",
        metavar=f"N|{placing.ALL}",
        help="how many equal machines build and measure the candidates (default: 1)",
    )
    parser.add_argument(
        "--priority",
        default="normal",
        metavar="|".join(placing.PRIORITIES),
        help="whether it comes before or after other queued runs (default: normal)",
    )


def _add_options(parser: ArgumentParser) -> None:
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


def _is_here(machine: str) -> bool:
    """Whether this command tunes, rather than a worker of the site."""
    here = foreground.this_machine()
    return not machine or (here is not None and machine == here.name)


def _here() -> str:
    """What is tuned in the foreground is tuned on this machine, also where there are others. Raises `Invalid`."""
    here = foreground.this_machine()
    if here is None and Machine.objects.exists():
        raise Invalid({"machine": "This machine isn't one of the site's: join it, or choose one with --machine."})
    return here.name if here and placing.is_fleet(here) else placing.ANY


def _check_broker(machines: str, *, in_front: bool) -> None:
    """Machines of a pool speak with each other by the broker, without which they would wait forever. Raises `Invalid`."""
    if in_front and machines != "1" and (trouble := broker_trouble()):
        raise Invalid({"machines": f"Other machines can't be asked to measure. {trouble} Is REDIS_URL the site's?"})


def _follow(run: Run, interrupts: Interrupts, console: Console, *, in_front: bool) -> str:
    """Tune, unless a worker does, and show the progress; returns the final status."""

    def job() -> None:
        if in_front:
            _claim_and_supervise(run.pk, interrupts.shutdown)

    def stop() -> object:
        return runs.stop(run)

    def elsewhere() -> bool:
        return not interrupts.shutdown.is_set() and _goes_on(run, queued=not in_front)

    with RunProgress(console, run) as progress:
        foreground.follow(job, interrupts, stop, progress.update, elsewhere)
    foreground.give_up(run, stop)  # It ended while it waited.
    return run.status


def _goes_on(run: Run, *, queued: bool) -> bool:
    """Whether a worker has the run, or if `queued` is going to."""
    run.refresh_from_db(fields=("status",))
    return run.is_live or (queued and run.status == Run.Status.QUEUED)


def _claim_and_supervise(key: int, shutdown: threading.Event) -> None:
    run = Run.objects.select_related("network").get(pk=key)
    run.taker = foreground.this_machine()
    if run.wait_and_claim(shutdown):
        supervise(run, shutdown, jobs.invite)


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
