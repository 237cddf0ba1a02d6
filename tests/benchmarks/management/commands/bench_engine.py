"""Compares our engine with stock TVM on this machine."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management import CommandError

from tests.benchmarks.engine import onnxruntime, plan, report
from tests.benchmarks.engine.compare import Journal, compare
from tests.benchmarks.engine.plan import BATCHES, WORKLOADS, Pair
from tests.benchmarks.engine.sides import Broken, own_channel_layer
from tuning.engines.targets.resolving import cores
from tuning.management.migrated import MigratedCommand
from tuning.models import Run


class Command(MigratedCommand):
    """Exits with 0 if every comparison that there was time for was made, 1 if something failed, 2 for bad options."""

    help = "Tunes the same tasks with Tuneboard's engine and with stock TVM, in turn, and compares them. The machine should otherwise be idle."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to compare, for how long, and the output format."""
        parser.add_argument("--workloads", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS))
        parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES), help="trials per batch")
        parser.add_argument("--trials", type=int, help="budget of each tuning; by default that of the workload")
        parser.add_argument("--repeats", type=int, default=3, help="repeats, each with its own seed")
        parser.add_argument(
            "--quick", action="store_true", help="one comparison: 64 trials of a matmul in batches of 16"
        )
        parser.add_argument("--minutes", type=float, help="skip comparisons that would end later than this")
        parser.add_argument("--into", type=Path, help="results file; an existing one is continued")
        parser.add_argument(
            "--onnxruntime",
            nargs="+",
            type=int,
            metavar="RUN",
            help="instead compare these finished runs of built-in networks with ONNX Runtime",
        )
        parser.add_argument("--json", action="store_true", help="print only the figures, as JSON")
        parser.add_argument("--markdown", action="store_true", help="print the tables as in docs/benchmarks.md")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Makes the comparisons and prints each result."""
        if options["onnxruntime"]:
            self._compare_with_onnxruntime(options)
            return
        began = time.monotonic()
        # Valkey and the engines must end with this command, even if a shell started it with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        planned = _planned(options)
        path = options["into"] or settings.VAR / "bench" / time.strftime("%Y%m%d-%H%M%S.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            journal = Journal(path)
        except Broken as broken:
            raise CommandError(f"--into: {broken}", returncode=2) from broken
        minutes = sum(pair.seconds for pair in planned if not journal.has(pair)) / 60
        self._say(f"{len(planned)} comparisons, about {minutes:.0f} minutes on two quiet cores. Results: {path}")
        try:
            with own_channel_layer(path.parent):
                self._compare(planned, journal, began + 60 * (options["minutes"] or 1e9))
        except Broken as broken:
            raise CommandError(f"{broken}\nWhat was measured before is in {path}.") from broken
        except KeyboardInterrupt:
            self._say(f"Interrupted. --into {path} continues from here.")
        finally:
            self._print(journal, options)

    def _compare_with_onnxruntime(self, options: dict[str, Any]) -> None:
        runs = {run.pk: run for run in Run.objects.select_related("network").filter(pk__in=options["onnxruntime"])}
        if unknown := set(options["onnxruntime"]) - runs.keys():
            raise CommandError(f"--onnxruntime: there is no run {', '.join(map(str, sorted(unknown)))}", returncode=2)
        try:
            found = [(runs[key], onnxruntime.outcome(runs[key])) for key in options["onnxruntime"]]
        except Broken as broken:
            raise CommandError(str(broken)) from broken
        if options["json"]:
            self.stdout.write(
                json.dumps([{"run": run.pk} | msgspec.structs.asdict(each) for run, each in found], indent=1)
            )
        else:
            self.stdout.write(onnxruntime.markdown(found))

    def _compare(self, planned: list[Pair], journal: Journal, until: float) -> None:
        pace = 1.0
        for pair in planned:
            if journal.has(pair):
                continue
            if time.monotonic() + pace * pair.seconds > until:
                self._say(f"{pair.key}: left out, since there is no time for it")
                continue
            self._say(pair.key)
            began = time.monotonic()
            folder = journal.path.with_suffix("") / pair.key.replace(" ", "-")
            comparison = compare(pair, folder, self._say)
            pace = (time.monotonic() - began) / pair.seconds
            journal.add(comparison)
            self._say(_summary(comparison.figures(cores())))

    def _print(self, journal: Journal, options: dict[str, Any]) -> None:
        found = journal.comparisons
        if options["json"]:
            self.stdout.write(json.dumps([_figures(one) for one in found], indent=1))
        elif found:
            self.stdout.write(report.markdown(found, cores()))

    def _say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _planned(options: dict[str, Any]) -> list[Pair]:
    if options["quick"]:
        return list(plan.pairs(["matmul"], [16], 1, 64))
    if min(options["repeats"], *options["batches"], options["trials"] or 1) < 1:
        raise CommandError("--repeats, --batches and --trials must be at least 1", returncode=2)
    return list(plan.pairs(options["workloads"], options["batches"], options["repeats"], options["trials"]))


def _summary(figures: dict[str, float | None]) -> str:
    known = (f"{name} {'not reached' if value is None else format(value, '.3g')}" for name, value in figures.items())
    return "  ours/stock: " + ", ".join(known)


def _figures(one: Any) -> dict[str, Any]:
    sides = {
        side: {
            "trials": len(timeline.trials),
            "wall_s": timeline.wall_s,
            "first_s": timeline.first_s,
            "trials_a_second": timeline.trials_a_second,
            "estimate_s": timeline.final_estimate_s(),
            "short": sum(trial.short for trial in timeline.trials),
        }
        for side, timeline in (("ours", one.ours), ("stock", one.stock))
    }
    measured = {"ours_s": one.ours_s, "stock_s": one.stock_s, "stock_then_s": one.stock_then_s}
    return {"workload": one.workload, "batch": one.batch, "seed": one.seed, **sides, **measured} | {
        "ratios": one.figures(cores())
    }
