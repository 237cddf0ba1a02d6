"""Runs the tests on SQLite, then those that use the database again on PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from tuning.host.postgresql import CARELESS, own_server

DATABASES = ("sqlite", "postgresql")
NOTHING_COLLECTED = 5
AT_ONCE = (os.cpu_count() or 2) * 3 // 2
"""Tests at a time, more than there are cores: many wait for a site to start, for a page, or for time to pass."""
IN_PARALLEL = (f"--numprocesses={AT_ONCE}", "--dist=worksteal", "--durations=30")
"""Pytest's arguments unless some are given. Most files stay in one process, since their tests share slow fixtures."""
EVERYDAY = "Everyday tests; `python3 manage.py test --all` runs all."
ALL = "All tests."
SELECTED = "Selected tests."


@dataclass
class Round:
    """The result of pytest on one database."""

    database: str
    status: int
    seconds: float
    passed: int = 0
    skipped: int = 0
    broken: list[str] = field(default_factory=list)
    """Each test that failed, with the first line of why."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many tests of these files or functions only `--all` runs."""

    @property
    def failed(self) -> int:
        return len(self.broken)

    def __str__(self) -> str:
        counts = f"{self.database}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"{counts}, {self.left_out.total()} left to --all" if self.left_out else counts


class Command(BaseCommand):
    """Runs pytest on SQLite, then on a temporary PostgreSQL server. Arguments it doesn't know are passed to pytest.

    Without such arguments it runs the everyday tests, three at a time for every two cores.
    """

    help = __doc__

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: object) -> CommandParser:
        """Leaves out Django's options: -v, -k and the like are pytest's."""
        parser = CommandParser(prog=f"{prog_name} {subcommand}", description=self.__doc__, allow_abbrev=False)
        parser.add_argument("--database", choices=DATABASES, action="append", help="run on this database only")
        parser.add_argument("--all", action="store_true", help="run rare tests as well")
        return parser

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Exits with 0 if every round passed and some test ran, else with the highest of pytest's statuses."""
        options, given = self.create_parser(argv[0], argv[1]).parse_known_args(argv[2:])
        everyday = not (given or options.all)
        rounds = [_round(name, given or IN_PARALLEL, everyday=everyday) for name in options.database or DATABASES]
        for each in rounds:
            for name, count in each.left_out.items():
                self.stdout.write(f"{each.database}: left to --all: {name} ({count})")
        for each in rounds:
            self.stdout.write(f"{each.database}: {each.seconds:.0f} s")
        self.stdout.write("\n".join(str(each) for each in rounds))
        for each in rounds:
            for test in each.broken:
                self.stdout.write(f"{each.database}: failed: {test}")
        self.stdout.write(EVERYDAY if everyday else SELECTED if given else ALL)
        sys.exit(_status(rounds))


def _status(rounds: Sequence[Round]) -> int:
    """A round without tests is fine as long as another one has some."""
    statuses = {each.status for each in rounds}
    return max(statuses - {NOTHING_COLLECTED}, default=NOTHING_COLLECTED)


def _round(database: str, pytest_args: Sequence[str], *, everyday: bool) -> Round:
    server = own_server(CARELESS) if database == "postgresql" else nullcontext(None)
    with tempfile.TemporaryDirectory(prefix="tuneboard-tests-") as folder, server as url:
        report, left_out = Path(folder) / "report.xml", Path(folder) / "left_out"
        env = {name: value for name, value in os.environ.items() if name != "TUNEBOARD_TEST_DATABASE_URL"}
        env |= {"TUNEBOARD_TEST_DATABASE_URL": url} if url else {}
        # Temporary files of processes that tests kill are removed at the end. What pytest keeps of tests that failed isn't.
        env |= {"TMPDIR": folder, "PYTEST_DEBUG_TEMPROOT": tempfile.gettempdir()}
        tier = [f"--everyday={left_out}"] if everyday else []
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *tier, *pytest_args]
        started = time.monotonic()
        done = subprocess.run(command, cwd=settings.BASE_DIR, env=env, check=False)
        result = _counted(Round(database, done.returncode, time.monotonic() - started), report)
        for line in left_out.read_text().splitlines() if left_out.exists() else []:
            count, _, name = line.partition(" ")
            result.left_out[name] = int(count)
        return result


def _counted(done: Round, report: Path) -> Round:
    if report.exists():
        suite = ET.parse(report).getroot()[0]  # noqa: S314 - pytest wrote it just now
        done.broken = [told for case in suite.iter("testcase") for told in _failures(case)]
        done.skipped = int(suite.get("skipped", 0))
        done.passed = int(suite.get("tests", 0)) - done.failed - done.skipped
    return done


def _failures(case: ET.Element) -> Iterator[str]:
    """The name of the test, and what it or its fixtures failed with."""
    for failure in (*case.findall("failure"), *case.findall("error")):
        message = failure.get("message", "").partition("\n")[0]
        yield f"{case.get('classname')}::{case.get('name')}: {message}"
