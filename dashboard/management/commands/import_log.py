"""`manage.py import_log PATH…`: make runs of record logs, with the same code and database as the site."""

from __future__ import annotations

import json
import logging
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management import CommandError
from rich.console import Console
from typing_extensions import TypedDict

from dashboard.management import foreground
from dashboard.management.foreground import Interrupts
from dashboard.presentation.terminal import ImportProgress, import_summary
from tuning.actions.incoming import imports
from tuning.management.migrated import MigratedCommand
from tuning.models import Import, Run
from tuning.validation import Invalid
from tuning.work.importing import LogFile, carry_out


class ImportedDict(TypedDict):
    """A run that the logs became, or that has their records already."""

    id: int
    engine: str
    target: dict[str, Any]
    trials_done: int
    trials_failed: int
    tasks_total: int
    bad_lines: int


class Command(MigratedCommand):
    """Exit status: 0 if the logs were imported or are known, 1 if not, 2 for invalid options."""

    help = (
        "Import record logs of auto_scheduler, AutoTVM or MetaSchedule: a run for each log and target. Ctrl-C cancels."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="files or folders; gzip and zip, too")
        parser.add_argument("--name", default="", help="the runs' name (default: that of the file)")
        parser.add_argument("--network", default="", help="the network that was tuned (default: not recorded)")
        parser.add_argument(
            "--weights", type=Path, metavar="FILE", help="JSON: how often each task occurs, by its name or hash"
        )
        parser.add_argument("--project", default="", help="the project that they belong to (default: the first one)")
        parser.add_argument("--again", action="store_true", help="import records again that a run has already")
        parser.add_argument("--json", action="store_true", help="print only the runs as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        console = foreground.console(sys.stderr if options["json"] else sys.stdout)
        # Without `up` there may be no broker, and nobody is watching.
        logging.getLogger("tuning.notify.announce").setLevel(logging.ERROR)
        interrupts = Interrupts()
        source, files = _started(options)
        _follow(source, files, interrupts, console)
        source.refresh_from_db()
        runs = [_shown(result["run"]) for result in source.results]
        if options["json"]:
            self.stdout.write(json.dumps(runs))
        import_summary(console, source)
        if source.status != Import.Status.FINISHED:
            raise CommandError(f"The import {source.status}: {source.error or 'nothing was kept'}", returncode=1)


def _started(options: dict[str, Any]) -> tuple[Import, list[LogFile]]:
    data = {name: options[name] for name in ("name", "network", "project", "again")}
    try:
        weights = options["weights"].read_bytes() if options["weights"] else None
        return imports.start_here(options["paths"], {**data, "weights": weights})
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}", returncode=2) from error
    except Invalid as error:
        lines = (f"--{field}: {message}" for field, message in error.fields.items())
        raise CommandError("\n".join(lines), returncode=2) from error


def _follow(source: Import, files: Sequence[LogFile], interrupts: Interrupts, console: Console) -> None:
    """Carry out the import and show the progress."""

    def stop() -> object:
        return imports.cancel(source)

    with ImportProgress(console, source) as progress:
        foreground.follow(lambda: _work(source.pk, files, interrupts.shutdown), interrupts, stop, progress.update)
    foreground.give_up(source, stop)  # No worker could read these files.


def _work(key: int, files: Sequence[LogFile], shutdown: threading.Event) -> None:
    source = Import.objects.select_related("project", "created_by").get(pk=key)
    if source.claim():
        carry_out(source, files, shutdown)


def _shown(key: int) -> ImportedDict:
    run = Run.objects.get(pk=key)
    return {
        "id": run.pk,
        "engine": run.engine,
        "target": run.target,
        "trials_done": run.trials_done,
        "trials_failed": run.trials_failed,
        "tasks_total": run.tasks_total,
        "bad_lines": run.bad_lines,
    }
