"""`manage.py compile`: compile a run in the foreground, with the same code and database as the site."""

from __future__ import annotations

import json
import logging
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import CommandError
from rich.console import Console

from dashboard.management import foreground
from dashboard.management.foreground import POLL_S, Interrupts
from dashboard.presentation import compilations as words
from dashboard.presentation import snippets
from dashboard.presentation.downloads import stem
from dashboard.presentation.terminal import CompileProgress, compile_summary
from tuning.actions import compilations
from tuning.management.migrated import MigratedCommand
from tuning.models import Compilation, Run
from tuning.reads import artifacts
from tuning.validation import Conflict, Invalid
from tuning.work.compiling import carry_out

_OPTION = {
    "source": "--best-of",
    "choose": "--choose",
    "batches": "--batches",
    "imported_records": "--imported-records",
    "cuda_graphs": "--cuda-graphs",
}


class Command(MigratedCommand):
    """Exit status: 0 if the library was built and verified, 1 if not, 2 for invalid options."""

    help = "Compile a run with the best records, verify the library and benchmark it. Ctrl-C cancels."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int, help="the run's number")
        parser.add_argument(
            "--best-of",
            default="run",
            metavar="run|library",
            help="records to use: those of this run, or the best of all runs",
        )
        parser.add_argument(
            "--choose",
            default="alone",
            metavar="alone|inside",
            help="where each task's best record is chosen: as its trial was measured, or inside the built network",
        )
        parser.add_argument(
            "--batches",
            default="one",
            metavar="one|all",
            help="whether the library takes the run's own batch, or any, with functions for each batch that was tuned",
        )
        parser.add_argument(
            "--imported-records",
            default="off",
            metavar="on|off",
            help="whether records count that were imported or streamed: they are measured inside the network before they replace others",
        )
        parser.add_argument(
            "--cuda-graphs",
            default="on",
            metavar="on|off",
            help="whether kernels for a CUDA GPU are captured as graphs and launched together",
        )
        parser.add_argument("--out", type=Path, help="folder to copy the library, manifest and example programs to")
        parser.add_argument("--json", action="store_true", help="print only the compilation as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        console = foreground.console(sys.stderr if options["json"] else sys.stdout)
        # Without `up` there may be no broker, and nobody is watching.
        logging.getLogger("tuning.notify.announce").setLevel(logging.ERROR)
        interrupts = Interrupts()
        compilation = _queued(options)
        console.print(words.untuned(artifacts.record_coverage(compilation.run, compilation.source)), soft_wrap=True)
        _follow(compilation, interrupts, console)
        compilation = Compilation.objects.shown().get(pk=compilation.pk)
        shown = compilation.to_dict()
        if options["json"]:
            self.stdout.write(json.dumps(shown))
        else:
            compile_summary(console, shown)
        if options["out"] and compilation.is_published:
            for path in _copied(compilation, options["out"]):
                console.print(f"Wrote {path}")
        if not compilation.verified or compilation.error:
            raise CommandError(f"Compilation {compilation.pk} {_ending(compilation)}", returncode=1)


def _queued(options: dict[str, Any]) -> Compilation:
    run = Run.objects.select_related("network").filter(pk=options["run"]).first()
    if run is None:
        raise CommandError(f"There is no run {options['run']}.", returncode=2)
    try:
        asked = {"source": options["best_of"]} | {name: options[name] for name in _OPTION if name != "source"}
        return compilations.compile_run(run, asked, None, enqueue=False)
    except Invalid as error:
        wrong = (f"{_OPTION[name]}: {why}" for name, why in error.fields.items())
        raise CommandError("\n".join(wrong), returncode=2) from error
    except Conflict as error:
        raise CommandError(str(error), returncode=2) from error


def _follow(compilation: Compilation, interrupts: Interrupts, console: Console) -> None:
    """Run the jobs and show the progress."""

    def stop() -> object:
        return compilations.cancel(compilation)

    with CompileProgress(console, compilation) as progress:
        foreground.follow(lambda: _work(compilation.pk, interrupts.shutdown), interrupts, stop, progress.update)
    foreground.give_up(compilation, stop)


def _work(key: int, shutdown: threading.Event) -> None:
    """Run the jobs until the compilation has ended; if a worker has taken one, wait for it."""
    while not shutdown.is_set():
        compilation = Compilation.objects.shown().get(pk=key)
        if compilation.status in Compilation.ENDED:
            return
        compilation.taker = foreground.this_machine()
        if compilation.wait_and_claim(shutdown):
            carry_out(compilation, shutdown)
        else:
            shutdown.wait(POLL_S)


def _copied(compilation: Compilation, folder: Path) -> list[Path]:
    """Copy library, manifest and programs, with the names that downloads have."""
    folder.mkdir(parents=True, exist_ok=True)
    before = f"{stem(compilation.run)}_"
    library, manifest = artifacts.library_file(compilation), artifacts.manifest_file(compilation)
    copies = []
    for file in (library, manifest):
        copies.append(folder / f"{before}{file.name}")
        with copies[-1].open("wb") as copy:
            copy.writelines(file.pieces)
    for snippet in snippets.snippets(compilation):
        copies.append(folder / snippet["file_name"])
        copies[-1].write_text(snippet["text"])
    return copies


def _ending(compilation: Compilation) -> str:
    if compilation.verified is False:
        return "is not verified: do not use it."
    return f"{compilation.status}: {compilation.error or 'no reason recorded'}"
