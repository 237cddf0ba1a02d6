"""Measures how fast record logs are read."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
from django.core.management import BaseCommand, CommandError

from tests.benchmarks.logs.generating import LOGS, generate
from tests.benchmarks.logs.report import Finding, Stored, markdown, stored_markdown
from tests.live import environment
from tuning.host.postgresql import new_database, own_server

STORED = "auto_scheduler, a million lines"
"""The log that is imported into databases."""
SMALLER = 10
"""By how much the log is smaller at which memory is measured, too."""


class Command(BaseCommand):
    """Exits with 2 for bad options. Needs about 400 MB of temporary disk space."""

    help = "Generates large logs of each format and compares reading them with parsing their JSON alone."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to measure, how often, and the output format."""
        parser.add_argument("--logs", nargs="+", choices=sorted(LOGS), default=list(LOGS))
        parser.add_argument("--repeats", type=int, default=3, help="pairs of measurements of each log")
        parser.add_argument(
            "--lines", type=int, help="lines of each log; by default those of the table in docs/benchmarks.md"
        )
        parser.add_argument(
            "--databases",
            nargs="+",
            choices=("sqlite", "postgresql"),
            default=[],
            help="import the log of a million lines into an empty database of each, instead of reading logs",
        )
        parser.add_argument("--json", action="store_true", help="print only the figures, as JSON")
        parser.add_argument(
            "--markdown", action="store_true", help="print the table as in docs/benchmarks.md (default)"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Measures one log after the other."""
        if options["repeats"] < 1 or (options["lines"] or SMALLER) < SMALLER:
            raise CommandError(f"--repeats must be at least 1, --lines at least {SMALLER}", returncode=2)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.json"
            if options["databases"]:
                kept = [
                    stored(database, options["lines"] or LOGS[STORED][1], path) for database in options["databases"]
                ]
                text = msgspec.json.encode(kept).decode() if options["json"] else stored_markdown(kept)
                self.stdout.write(text, ending="")
                return
            found = [
                measured(name, options["lines"] or LOGS[name][1], options["repeats"], path) for name in options["logs"]
            ]
        self.stdout.write(msgspec.json.encode(found).decode() if options["json"] else markdown(found), ending="")


def measured(name: str, lines: int, repeats: int, path: Path) -> Finding:
    """The figures of one log. Its file is overwritten."""
    generate(name, lines // SMALLER, path)
    small_peak = _child(path, 0)
    generate(name, lines, path)
    return Finding(
        log=name,
        lines=lines,
        bytes=path.stat().st_size,
        pairs=_child(path, repeats),
        small_lines=lines // SMALLER,
        small_peak_bytes=small_peak,
        peak_bytes=_child(path, 0),
    )


def stored(database: str, lines: int, path: Path) -> Stored:
    """The figures of imports into empty databases. The log's file is overwritten."""
    server: AbstractContextManager[str | None] = own_server() if database == "postgresql" else nullcontext(None)
    with server as url:
        small = _imported(path, lines // SMALLER, url)
        whole = _imported(path, lines, url)
    ((json_s, _),) = _child(path, 1)
    return Stored(
        database=database,
        lines=lines,
        json_s=json_s,
        cpu_s=whole["cpu_s"],
        elapsed_s=whole["elapsed_s"],
        small_lines=lines // SMALLER,
        small_peak_bytes=small["peak_bytes"],
        peak_bytes=whole["peak_bytes"],
    )


def _imported(path: Path, lines: int, url: str | None) -> Any:
    generate(STORED, lines, path)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        env = environment(Path(folder), new_database(url, f"import_{lines}") if url else None)
        command = [sys.executable, "-m", "tests.benchmarks.logs.storing", str(path)]
        return json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)


def _child(path: Path, repeats: int) -> Any:
    command = [sys.executable, "-m", "tests.benchmarks.logs.reading", str(path), str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
