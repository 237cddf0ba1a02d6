"""`manage.py seed_trials`: made-up runs, to see how the site bears many trials."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management import CommandError

from tuning.actions.launching import MOST_TRIALS
from tuning.management.migrated import MigratedCommand
from tuning.work import synthetic

MOST_TASKS = 1000


class Command(MigratedCommand):
    """Prints the run's id and nothing else on stdout; several, one a line. Exit status 2 for bad options."""

    help = "Record finished runs of made-up trials, marked synthetic everywhere; nothing is tuned, and nothing learns from them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """How much."""
        parser.add_argument("--trials", type=int, default=10_000, help="of each run (default: 10000)")
        parser.add_argument("--tasks", type=int, default=24, help="of each run (default: 24)")
        parser.add_argument("--runs", type=int, default=1, help="how many runs (default: 1)")
        parser.add_argument("--seed", type=int, default=0, help="of the first run; the following ones count up")
        parser.add_argument("--json", action="store_true", help="print ids and trials a second as JSON instead")

    def handle(self, *, trials: int, tasks: int, runs: int, seed: int, **options: Any) -> None:
        """Make them one after the other, and say each as it is there."""
        for name, value, most in (("trials", trials, MOST_TRIALS), ("tasks", tasks, MOST_TASKS), ("runs", runs, 10**6)):
            if not 1 <= value <= most:
                raise CommandError(f"--{name} must be from 1 to {most}", returncode=2)
        began, ids = time.monotonic(), []
        try:
            for run in synthetic.seed_runs(runs, trials, tasks, seed=seed):
                ids.append(run.pk)
                if not options["json"]:
                    self.stdout.write(str(run.pk))
        except synthetic.Busy as busy:
            raise CommandError(str(busy)) from busy
        if options["json"]:
            taken_s = time.monotonic() - began
            self.stdout.write(json.dumps({"runs": ids, "seconds": taken_s, "trials_a_second": runs * trials / taken_s}))
