"""`manage.py export_library OUT`: the best records of all workloads, as stock tools read them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from django.core.management import CommandError
from django.core.management.base import CommandParser

from tuning.management.migrated import MigratedCommand
from tuning.models import Project
from tuning.reads.downloads import EngineName, Exported, target_named
from tuning.reads.library import LibraryFilter
from tuning.validation import Conflict, Invalid


class Command(MigratedCommand):
    """Exit status: 0 if the records were written, 1 if there are none, 2 for invalid options."""

    help = "Write the best record of each workload and target: MetaSchedule's two database files, or a log."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "out",
            metavar="OUT",
            type=Path,
            help="a folder for the two files, or a file that ends with .zip; for older engines the log",
        )
        parser.add_argument(
            "--engine",
            choices=get_args(EngineName),
            default="meta_schedule",
            help="whose records (default: %(default)s)",
        )
        parser.add_argument(
            "--target",
            default="",
            help="only this target: its name as pages show it, or the beginning of its fingerprint",
        )
        parser.add_argument("--network", default="", help="only workloads of this network, by name")
        parser.add_argument(
            "--search", default="", metavar="TEXT", help="only workloads that the search of Best records finds"
        )
        parser.add_argument(
            "--imported",
            action="store_true",
            help="also records that were imported or streamed, whose latencies this site hasn't measured",
        )
        parser.add_argument("--project", default="", help="only records of this project's runs (default: of all)")
        parser.add_argument("--force", action="store_true", help="replace what is there already")
        parser.add_argument("--json", action="store_true", help="print what was written as JSON")

    def handle(self, *, out: Path, force: bool, **options: Any) -> None:
        engine, project = options["engine"], _project(options["project"])
        try:
            target = target_named(None, options["target"]) if options["target"] else ""
            wanted = LibraryFilter(None, options["search"], options["network"], target, imported=options["imported"])
            exported = Exported.of(wanted, engine, project)
        except Invalid as error:
            raise CommandError(
                "\n".join(f"--{name}: {why}" for name, why in error.fields.items()), returncode=2
            ) from error
        except Conflict as error:
            raise CommandError(str(error), returncode=1) from error
        if exported.engine != "meta_schedule" and out.is_dir():
            raise CommandError(f"{out} is a folder: name the log to write.", returncode=2)
        files = _files(exported, out)
        if not force and (there := [str(path) for path, _ in files if path.exists()]):
            raise CommandError(f"{', '.join(there)}: exists already. Choose another name, or --force.", returncode=2)
        try:
            _write(files)
        except OSError as error:
            raise CommandError(f"{error.filename or out}: {error.strerror or error}.", returncode=1) from error
        written = {"engine": engine, "records": len(exported.keys), "files": [str(path) for path, _ in files]}
        self.stdout.write(json.dumps(written) if options["json"] else _said(written))


def _project(name: str) -> Project | None:
    found = Project.objects.filter(name=name).first()
    if name and found is None:
        raise CommandError(f"--project: There is no project {name!r}.", returncode=2)
    return found


def _files(exported: Exported, out: Path) -> list[tuple[Path, Iterable[bytes]]]:
    """What to write where, in this order."""
    if exported.engine != "meta_schedule" or out.suffix == ".zip":
        return [(out, exported.file().pieces)]
    return [(out / name, pieces) for name, pieces in exported.database().items()]


def _write(files: list[tuple[Path, Iterable[bytes]]]) -> None:
    """Write all files, then rename them: an interrupted export leaves what was there."""
    parts = [path.with_name(f"{path.name}.{os.getpid()}.part") for path, _ in files]
    try:
        for (path, pieces), part in zip(files, parts, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.writelines(pieces)
        for (path, _), part in zip(files, parts, strict=True):
            part.replace(path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _said(written: dict[str, Any]) -> str:
    return f"Wrote {written['records']:,} record{'s' * (written['records'] != 1)} to {' and '.join(written['files'])}."
