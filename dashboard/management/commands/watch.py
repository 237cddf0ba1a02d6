"""`manage.py watch`: follow a record file that another process writes, as a run."""

from __future__ import annotations

import logging
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import CommandError

from dashboard.management import foreground
from dashboard.management.foreground import POLL_S, Interrupts
from dashboard.presentation.terminal import summary
from tuning.actions import projects, runs
from tuning.management.migrated import MigratedCommand
from tuning.models import Run, Watch
from tuning.streams import watches
from tuning.validation import Conflict, Invalid
from tuning.wording import target_label
from tuning.work.elsewhere.firsts import record_file
from tuning.work.elsewhere.watching import claim, watch


class Command(MigratedCommand):
    """Exit status: 0 once it was told to stop, 1 if the run failed, 2 for invalid options."""

    help = (
        "Follow a record file that another process writes, of AutoTVM, auto_scheduler or MetaSchedule (its folder, or the file of its "
        "records), as a run. Ctrl-C stops watching and keeps the run; watching the file again continues it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="the record file, or the folder of a MetaSchedule database")
        parser.add_argument("--name", default="", help="the run's name (default: the network's or the file's)")
        parser.add_argument("--network", default="", help="what the network is called")
        parser.add_argument("--project", default="", help="the project that it belongs to (default: the first one)")

    def handle(self, *_args: Any, **options: Any) -> None:
        # Without `up` there may be no broker, and nobody is watching.
        logging.getLogger("tuning.notify.announce").setLevel(logging.ERROR)
        interrupts, console = Interrupts(), foreground.console(sys.stdout)
        run = self._begin(options, interrupts)
        if run is None:
            return
        console.print(f"Run {run.pk} watches {run.watch.path}. Ctrl-C ends that.", soft_wrap=True)
        failed = []
        for each in self._watch(run, interrupts):
            shown = Run.objects.select_related("network", "project", "created_by").get(pk=each.pk).to_full_dict()
            summary(console, shown)
            if each.status == Run.Status.FAILED:
                failed.append(f"Run {each.pk} {each.status}: {shown['error']}")
        if failed:
            raise CommandError("\n".join(failed), returncode=1)

    def _begin(self, options: dict[str, Any], interrupts: Interrupts) -> Run | None:
        """The run, as soon as the file has a record; None if the command was told to end before."""
        path = record_file(options["path"].absolute()).resolve()
        told = False
        try:
            project = projects.chosen(options["project"], None, projects.LAUNCH)
            about = {"name": options["name"], "network": options["network"]}
            while not (run := watches.begun(path, None, project, **about, foreground=True)):
                if not told:
                    self.stderr.write(f"Waiting for the first record in {path}.")
                told = True
                if interrupts.stop or interrupts.shutdown.wait(POLL_S):
                    return None
        except Invalid as error:
            lines = (f"{name}: {message}" for name, message in error.fields.items())
            raise CommandError("\n".join(lines), returncode=2) from error
        except Conflict as error:
            raise CommandError(str(error), returncode=2) from error
        return run

    def _watch(self, run: Run, interrupts: Interrupts) -> list[Run]:
        """Watch until told to end; the runs that the file became, one a target."""
        said: dict[int, tuple[Any, ...]] = {run.pk: _news(run)}

        def say() -> None:
            for each in _runs_of(run):
                self._say(each, said)

        foreground.follow(
            lambda: _claim_and_watch(run.pk, interrupts.shutdown), interrupts, lambda: runs.stop(run), say
        )
        return [each for each in _runs_of(run) if each.pk in said]

    def _say(self, run: Run, said: dict[int, tuple[Any, ...]]) -> None:
        """A line for what changed, and which run it is about if there are several."""
        if run.pk not in said and run.status not in Run.ENDED:
            self.stdout.write(f"Run {run.pk} has the records for {target_label(run.target)}.")
            said[run.pk] = ()
        if run.pk in said and said[run.pk] != (news := _news(run)):
            said[run.pk] = news
            which = f"Run {run.pk}: " if len(said) > 1 else ""
            quiet = "; nothing has come for ten minutes" if run.phase == "quiet" else ""
            text = f"{which}{run.trials_done:,} trials, {run.trials_failed:,} failed{quiet}. {run.error or ''}"
            self.stdout.write(text.rstrip())


def _news(run: Run) -> tuple[Any, ...]:
    return run.trials_done, run.phase == "quiet", run.error


def _runs_of(run: Run) -> list[Run]:
    return [watch.run for watch in Watch.objects.of_file(run.watch.path, run.project)]


def _claim_and_watch(key: int, shutdown: threading.Event) -> None:
    run = Run.objects.get(pk=key)
    if claim(run):
        watch(run, shutdown)
