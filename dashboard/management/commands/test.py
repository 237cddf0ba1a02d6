"""Run the tests on SQLite, then those that use the database on PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from tuning.host.postgresql import CARELESS, own_server

DATABASES = ("sqlite", "postgresql")
NOTHING_COLLECTED = 5
EVERYTHING = ("--numprocesses=auto", "--dist=worksteal", "--durations=30")
"""Pytest's arguments when none are given: all tests, on all cores. Most files stay whole, whose tests share what is slow to make."""


@dataclass
class Round:
    """What pytest did on one database."""

    database: str
    status: int
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        return f"{self.database}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Command(BaseCommand):
    """Runs pytest on SQLite, then on a PostgreSQL server of its own; all other arguments are pytest's.

    Without any, as many tests run at a time as there are cores.
    """

    help = __doc__

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: object) -> CommandParser:
        """Without Django's own options: -v and -k and all others are pytest's."""
        parser = CommandParser(prog=f"{prog_name} {subcommand}", description=self.__doc__, allow_abbrev=False)
        parser.add_argument("--database", choices=DATABASES, action="append", help="run on this one only")
        return parser

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Exits with 0 when every round passed and some test ran, else with the worst of pytest's statuses."""
        options, given = self.create_parser(argv[0], argv[1]).parse_known_args(argv[2:])
        rounds = [_round(database, given or EVERYTHING) for database in options.database or DATABASES]
        for each in rounds:
            self.stdout.write(f"{each.database}: {each.seconds:.0f} s")
        self.stdout.write("\n".join(str(each) for each in rounds))
        sys.exit(_status(rounds))


def _status(rounds: Sequence[Round]) -> int:
    """A selection that leaves nothing to a later round is fine; one that leaves nothing to any is a mistake."""
    statuses = {each.status for each in rounds}
    return max(statuses - {NOTHING_COLLECTED}, default=NOTHING_COLLECTED)


def _round(database: str, pytest_args: Sequence[str]) -> Round:
    server = own_server(CARELESS) if database == "postgresql" else nullcontext(None)
    with tempfile.TemporaryDirectory(prefix="tuneboard-tests-") as folder, server as url:
        report = Path(folder) / "report.xml"
        env = {name: value for name, value in os.environ.items() if name != "TUNEBOARD_TEST_DATABASE_URL"}
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *pytest_args]
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=settings.BASE_DIR, env=env | ({"TUNEBOARD_TEST_DATABASE_URL": url} if url else {}), check=False
        )
        return _counted(Round(database, done.returncode, time.monotonic() - started), report)


def _counted(done: Round, report: Path) -> Round:
    if report.exists():
        suite = ET.parse(report).getroot()[0]  # noqa: S314 - pytest wrote it just now
        tests, failures, errors, skipped = (
            int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
        )
        done.failed, done.skipped = failures + errors, skipped
        done.passed = tests - done.failed - done.skipped
    return done
