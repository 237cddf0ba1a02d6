"""`manage.py check_regression RUN`: whether the run's network got slower, for CI."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from tuning.actions import compilations
from tuning.management.migrated import MigratedCommand
from tuning.models import Benchmark, Compilation, Run
from tuning.reads.comparing.regressions import Verdict, earlier, judged, latest_of
from tuning.validation import Conflict

POLL_S = 2.0
UNKNOWN = 2


class Command(MigratedCommand):
    """Exit status: 0 if it isn't slower, 1 if it is by more than noise, 2 if that can't be told."""

    help = (
        "Compile a run with the best records known, benchmark the library, and compare it with the benchmarks before."
        " The site's workers do it, so the site must be running."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=int, metavar="RUN", help="the run's number; it says network, target and device")
        parser.add_argument(
            "--best-of",
            choices=Compilation.Source.values,
            default=Compilation.Source.LIBRARY,
            help="records to use: those of this run, or the best of all runs (default: %(default)s)",
        )
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--no-compile", action="store_true", help="measure the newest library again")
        how.add_argument("--recorded", action="store_true", help="measure nothing: judge the newest benchmark")
        parser.add_argument("--base", type=int, metavar="BENCHMARK", help="compare with this benchmark only")
        parser.add_argument(
            "--wait-s", type=int, default=7200, help="seconds to wait for the result (default: %(default)s)"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, **options: Any) -> None:
        latest = self._benchmark(options)
        before = earlier(latest, options["base"])
        if options["base"] is not None and not before:
            raise CommandError(
                f"--base: There is no earlier benchmark {options['base']} of this network, target, device and machine.",
                returncode=UNKNOWN,
            )
        found = judged(latest, before)
        about = {"run": latest.compilation.run_id, "compilation": latest.compilation_id, "benchmark": latest.pk}
        self.stdout.write(json.dumps({**about, **found}) if options["json"] else said(found))
        if status := {"regression": 1, "unknown": UNKNOWN}.get(found["verdict"], 0):
            sys.exit(status)

    def _benchmark(self, options: dict[str, Any]) -> Benchmark:
        """The benchmark to judge. Raises `CommandError`."""
        run = Run.objects.select_related("network").filter(pk=options["run"]).first()
        if run is None:
            raise CommandError(f"There is no run {options['run']}.", returncode=UNKNOWN)
        try:
            compilation, known = _asked(run, options)
        except Conflict as error:
            raise CommandError(str(error), returncode=UNKNOWN) from error
        if not options["recorded"]:
            _wait(compilation, options["wait_s"])
        latest = latest_of(compilation)
        if latest is None or latest.pk == known:
            why = compilation.error or "it is not verified"
            raise CommandError(f"Compilation {compilation.pk} has no new benchmark: {why}", returncode=UNKNOWN)
        return latest


def _asked(run: Run, options: dict[str, Any]) -> tuple[Compilation, int | None]:
    """The compilation that gives the benchmark, queued unless what is recorded is enough, and its benchmark that isn't the one.

    Raises `Conflict`.
    """
    if not (options["no_compile"] or options["recorded"]):
        return compilations.compile_run(run, {"source": options["best_of"]}, None), None
    built = run.compilations.filter(sha256__isnull=False, source=options["best_of"])
    found = built.filter(verified=True).first() if options["recorded"] else built.first()
    if found is None:
        raise Conflict(f"Run {run.pk} has no library with records of the {options['best_of']} yet.")
    if options["recorded"]:
        return found, None
    newest = found.benchmarks.first()  # Looked up first: a worker may be quick.
    return compilations.benchmark(found, None), newest.pk if newest else None


def _wait(compilation: Compilation, seconds: int) -> None:
    """Raises `CommandError` if it takes longer, and then cancels it."""
    until = time.monotonic() + seconds
    while compilation.status not in Compilation.ENDED:
        if time.monotonic() > until:
            compilations.cancel(compilation)
            raise CommandError(
                f"Compilation {compilation.pk} was still {compilation.status} after {seconds} s. Is the site running?",
                returncode=UNKNOWN,
            )
        time.sleep(POLL_S)
        compilation.refresh_from_db()


def said(found: Verdict) -> str:
    """The verdict in a sentence."""
    now = f"{found['latency_s'] * 1e3:.4g} ms"
    if found["base_s"] is None or found["change"] is None:
        return f"unknown: {now}. There is no earlier benchmark to compare with."
    against = f"{now}, {found['change']:+.1%} against the base of {found['base_s'] * 1e3:.4g} ms"
    if found["noise"] is None:
        return f"unknown: {against}. Noise isn't known: a benchmark has too few rounds. Give it more time by TUNEBOARD_BENCHMARK_S."
    return f"{found['verdict']}: {against}, noise is ±{found['noise']:.1%}."
