"""`manage.py bench_engine`: our engine beside stock TVM, on this machine."""

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
    """Exit status: 0 when all that was planned and had time was compared, 1 when something broke, 2 for bad options."""

    help = "Tune the same tasks with Tuneboard's engine and with stock TVM, in turn, and compare. Leave the machine alone meanwhile."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to compare, how long, and how to say it."""
        parser.add_argument("--workloads", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS))
        parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES), help="trials per batch")
        parser.add_argument("--trials", type=int, help="of each tuning; by default as many as the workload needs")
        parser.add_argument("--repeats", type=int, default=3, help="each with another seed")
        parser.add_argument("--quick", action="store_true", help="64 trials of the matmul at 16 a batch, once")
        parser.add_argument("--minutes", type=float, help="begin nothing that would end later")
        parser.add_argument("--into", type=Path, help="the results' file; one that exists is added to")
        parser.add_argument(
            "--onnxruntime",
            nargs="+",
            type=int,
            metavar="RUN",
            help="compare nothing, but set these finished runs of built-in networks beside ONNX Runtime",
        )
        parser.add_argument("--json", action="store_true", help="print the figures as JSON, and nothing else")
        parser.add_argument("--markdown", action="store_true", help="print the tables as docs/benchmarks.md has them")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compare, and say each result as it comes."""
        if options["onnxruntime"]:
            self._set_beside(options)
            return
        began = time.monotonic()
        # So that Valkey and the engines end with it; also where a shell started it with Ctrl-C ignored.
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
            self._say(f"Interrupted. --into {path} goes on from here.")
        finally:
            self._print(journal, options)

    def _set_beside(self, options: dict[str, Any]) -> None:
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
                self._say(f"{pair.key}: left out, no time for it")
                continue
            self._say(pair.key)
            began = time.monotonic()
            folder = journal.path.with_suffix("") / pair.key.replace(" ", "-")
            comparison = compare(pair, folder, self._say)
            pace = (time.monotonic() - began) / pair.seconds
            journal.add(comparison)
            self._say(_said(comparison.figures(cores())))

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


def _said(figures: dict[str, float | None]) -> str:
    known = (f"{name} {'not reached' if value is None else format(value, '.3g')}" for name, value in figures.items())
    return "  ours/stock: " + ", ".join(known)


def _figures(one: Any) -> dict[str, Any]:
    sides = {
        side: {
            "trials": len(course.trials),
            "wall_s": course.wall_s,
            "first_s": course.first_s,
            "trials_a_second": course.trials_a_second,
            "estimate_s": course.final_estimate_s(),
            "short": sum(trial.short for trial in course.trials),
        }
        for side, course in (("ours", one.ours), ("stock", one.stock))
    }
    measured = {"ours_s": one.ours_s, "stock_s": one.stock_s, "stock_then_s": one.stock_then_s}
    return {"workload": one.workload, "batch": one.batch, "seed": one.seed, **sides, **measured} | {
        "ratios": one.figures(cores())
    }
