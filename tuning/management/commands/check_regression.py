"""`manage.py check_regression RUN|NAME`: whether a network got slower, for CI."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from tuning.actions import compilations
from tuning.actions.checking import checks
from tuning.management.migrated import MigratedCommand
from tuning.models import Benchmark, CheckResult, Compilation, RegressionCheck, Run
from tuning.models.checking import database_now, told
from tuning.reads.comparing.regressions import Verdict, earlier, judged, latest_of
from tuning.validation import Conflict, natural

POLL_S = 2.0
SLOWER = 1
UNKNOWN = 2
OF_RUNS = {"best_of": "--best-of", "no_compile": "--no-compile", "recorded": "--recorded", "base": "--base"}
OF_CHECKS = {"run_now": "--run-now", "wait": "--wait", "project": "--project"}
STATUS = {
    CheckResult.Verdict.REGRESSION: SLOWER,
    CheckResult.Verdict.FAILED: UNKNOWN,
    CheckResult.Verdict.SKIPPED: UNKNOWN,
}
"""The exit status by a result's verdict; otherwise 0."""


class Command(MigratedCommand):
    """Exit status: 0 if it isn't slower, 1 if it is by more than noise, 2 if that can't be told."""

    help = (
        "Compile a run with the best records known, benchmark the library, and compare it with the benchmarks before; or say what a stored"
        " check has found. The site's workers do what is measured, so the site must be running."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "what", metavar="RUN|NAME", help="a run's number, which says network, target and device, or a check's name"
        )
        of_run = parser.add_argument_group("with a run")
        of_run.add_argument(
            "--best-of",
            choices=Compilation.Source.values,
            help="records to use: those of this run, or the best of all runs (default: library)",
        )
        how = of_run.add_mutually_exclusive_group()
        how.add_argument("--no-compile", action="store_true", help="measure the newest library again")
        how.add_argument("--recorded", action="store_true", help="measure nothing: judge the newest benchmark")
        of_run.add_argument("--base", type=int, metavar="BENCHMARK", help="compare with this benchmark only")
        of_check = parser.add_argument_group("with a check")
        of_check.add_argument("--run-now", action="store_true", help="do it now; without --wait, that is all")
        of_check.add_argument("--wait", action="store_true", help="wait for the result that goes on")
        of_check.add_argument("--project", help="the check's project, if several have one of that name")
        parser.add_argument(
            "--wait-s", type=int, default=7200, help="seconds to wait for the result (default: %(default)s)"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, **options: Any) -> None:
        number = natural(options["what"])
        other, kind = (OF_CHECKS, "a run") if number is not None else (OF_RUNS, "a check")
        if given := [flag for name, flag in other.items() if options[name] not in (None, False)]:
            raise CommandError(f"{', '.join(given)}: not with {kind}.", returncode=UNKNOWN)
        status = self._of_check(options) if number is None else self._of_run(number, options)
        if status:
            sys.exit(status)

    def _of_run(self, number: int, options: dict[str, Any]) -> int:
        latest = self._benchmark(number, {**options, "best_of": options["best_of"] or Compilation.Source.LIBRARY})
        before = earlier(latest, options["base"])
        if options["base"] is not None and not before:
            raise CommandError(
                f"--base: There is no earlier benchmark {options['base']} of this network, target, device and machine.",
                returncode=UNKNOWN,
            )
        found = judged(latest, before)
        about = {"run": latest.compilation.run_id, "compilation": latest.compilation_id, "benchmark": latest.pk}
        self.stdout.write(json.dumps({**about, **found}) if options["json"] else said(found))
        return {"regression": SLOWER, "unknown": UNKNOWN}.get(found["verdict"], 0)

    def _of_check(self, options: dict[str, Any]) -> int:
        """The exit status by the check's latest result, or the one that was asked for."""
        check = _check(options["what"], options["project"])
        try:
            result = checks.do_now(check, None) if options["run_now"] else None
        except Conflict as error:
            raise CommandError(str(error), returncode=UNKNOWN) from error
        if options["wait"]:
            result = result or check.results.going().first()
            _until_ended(result, options["wait_s"])
        shown = result or check.latest
        if shown is None:
            raise CommandError(f"{check} has no result yet.", returncode=UNKNOWN)
        if result is None and not check.is_current(database_now()):
            raise CommandError(_outdated(check, shown), returncode=UNKNOWN)
        self.stdout.write(json.dumps(shown.to_dict()) if options["json"] else told(shown))
        return STATUS.get(CheckResult.Verdict(shown.verdict), 0) if shown.verdict else 0

    def _benchmark(self, number: int, options: dict[str, Any]) -> Benchmark:
        """The benchmark to judge. Raises `CommandError`."""
        run = Run.objects.select_related("network").filter(pk=number).first()
        if run is None:
            raise CommandError(f"There is no run {number}.", returncode=UNKNOWN)
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


def _check(name: str, project: str | None) -> RegressionCheck:
    """Raises `CommandError`."""
    found = RegressionCheck.objects.shown().filter(name=name)
    if project is not None:
        found = found.filter(project__name=project)
    known = list(found)
    if not known:
        where = f" in the project {project}" if project is not None else ""
        raise CommandError(f"There is no check {name!r}{where}.", returncode=UNKNOWN)
    if len(known) > 1:
        projects = ", ".join(one.project.name for one in known)
        raise CommandError(
            f"Several projects have a check {name!r}: say which by --project: {projects}.", returncode=UNKNOWN
        )
    return known[0]


def _outdated(check: RegressionCheck, latest: CheckResult) -> str:
    """Why its latest result says nothing of today."""
    since = f"{latest.ended_at:%Y-%m-%d %H:%M} UTC"
    if check.is_paused:
        return f"{check} is paused, and its latest result is of {since}. Measure with --run-now --wait."
    return f"{check} has had no result since {since}, although it is due every {check.every}. Is the site running?"


def _until_ended(result: CheckResult | None, seconds: int) -> None:
    """Raises `CommandError` if it takes longer. The result goes on then, as the site would have it."""
    until = time.monotonic() + seconds
    while result is not None and result.goes_on:
        if time.monotonic() > until:
            raise CommandError(f"{told(result)} That was {seconds} s. Is the site running?", returncode=UNKNOWN)
        time.sleep(POLL_S)
        try:
            result.refresh_from_db()
        except CheckResult.DoesNotExist as error:
            raise CommandError("The check was deleted meanwhile.", returncode=UNKNOWN) from error


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
        return f"unknown: {against}. Noise isn't known: a benchmark has too few rounds."
    return f"{found['verdict']}: {against}, noise is ±{found['noise']:.1%}."
