"""`manage.py seed_trials`: generate synthetic runs, to test the site with many trials."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management import CommandError

from tuning import audit
from tuning.actions.launching import MOST_TRIALS
from tuning.management.migrated import MigratedCommand
from tuning.work import synthetic

MOST_TASKS = 1000


class Command(MigratedCommand):
    """Prints only the id of each run, one per line. Exit status 2 for invalid options."""

    help = "Record finished runs of generated trials. They are marked as synthetic, and never used for tuning or compiling."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--trials", type=int, default=10_000, help="trials of each run (default: 10000)")
        parser.add_argument("--tasks", type=int, default=24, help="tasks of each run (default: 24)")
        parser.add_argument("--runs", type=int, default=1, help="number of runs (default: 1)")
        parser.add_argument(
            "--seed", type=int, default=0, help="seed of the first run; each following run adds one (default: 0)"
        )
        parser.add_argument("--json", action="store_true", help="print ids and trials per second as JSON instead")

    def handle(self, *, trials: int, tasks: int, runs: int, seed: int, **options: Any) -> None:
        for name, value, most in (("trials", trials, MOST_TRIALS), ("tasks", tasks, MOST_TASKS), ("runs", runs, 10**6)):
            if not 1 <= value <= most:
                raise CommandError(f"--{name} must be from 1 to {most}", returncode=2)
        began, ids = time.monotonic(), []
        try:
            for run in synthetic.seed_runs(runs, trials, tasks, seed=seed):
                ids.append(run.pk)
                audit.record("run.seed", run, trials=trials)
                if not options["json"]:
                    self.stdout.write(str(run.pk))
        except synthetic.Busy as busy:
            raise CommandError(str(busy)) from busy
        if options["json"]:
            taken_s = time.monotonic() - began
            self.stdout.write(json.dumps({"runs": ids, "seconds": taken_s, "trials_a_second": runs * trials / taken_s}))
