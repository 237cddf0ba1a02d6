"""Progress and results of runs and compilations in a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from typing_extensions import Self

from dashboard.presentation import compilations, units
from tuning.estimate import weighted
from tuning.models import BenchmarkDict, Compilation, CompilationDict, Import, Run, RunDict, TaskDict

BAD_LINES = 20
"""As many are printed."""


class _Bar:
    """A progress bar that disappears when its context ends."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class RunProgress(_Bar):
    """Reads the run from the database, since a worker may be tuning it."""

    def __init__(self, console: Console, run: Run) -> None:
        self._run = run
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._bar = self._progress.add_task(run.name, total=run.trials_budget, completed=run.trials_done, detail="")

    def update(self) -> None:
        self._run.refresh_from_db()
        done, total = self._run.trials_done, self._run.trials_budget
        self._progress.update(self._bar, completed=done, total=total, detail=_detail(self._run))


class ImportProgress(_Bar):
    """Reads the import from the database, as its job writes it."""

    def __init__(self, console: Console, source: Import) -> None:
        self._import = source
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._bar = self._progress.add_task("Reading", total=source.bytes_total)

    def update(self) -> None:
        self._import.refresh_from_db()
        self._progress.update(self._bar, completed=self._import.bytes_read)


def _trials(run: RunDict) -> str:
    of = "" if run["trials_budget"] is None else f" of {run['trials_budget']}"
    return f"{run['trials_done']}{of} trials"


def import_summary(console: Console, source: Import) -> None:
    """Print what became of each log, and what couldn't be read."""
    for result in source.results:
        became = "is in" if result["known"] else "became"
        again = " already: nothing was imported. With --again, it is." if result["known"] else ""
        console.print(f"{result['log']}: {result['engine']}, {became} run {result['run']}{again}")
    for skipped in source.skipped:
        console.print(f"{skipped['file']}: not read, {skipped['reason']}.")
    for remark in source.remarks:
        console.print(_remark(remark))
    for bad in source.bad_line_set.all()[:BAD_LINES]:
        console.print(f"{bad.file}, line {bad.line}: {bad.reason}")
    if source.bad_lines > BAD_LINES:
        console.print(f"… and {source.bad_lines - BAD_LINES:,} more lines that couldn't be read.")


def _remark(remark: dict[str, Any]) -> str:
    where = [remark["file"], f"line {remark['line']}"] if remark["line"] else [remark["file"]]
    return ": ".join([", ".join(filter(None, where)), remark["text"]]).removeprefix(": ")


def summary(console: Console, run: RunDict) -> None:
    """Print the table of tasks and the estimate."""
    console.print(_table(run))
    console.print(
        f"Run {run['id']} {run['status']}: {_trials(run)},"
        f" {run['trials_failed']} failed, in {units.duration(run['elapsed_s'])}."
    )
    for remark in (run["words"]["phase"], run["words"]["warm_start"]):
        if remark:
            console.print(f"{remark[0].upper()}{remark[1:]}.")
    console.print(f"{'Simulator’s wall time' if run['simulator'] else 'Estimated latency'}: {_estimate(run)}")
    for alert in run["alerts"]:
        console.print(alert["message"], style="yellow")


class CompileProgress(_Bar):
    """Reads the compilation from the database, since a worker may be doing it."""

    def __init__(self, console: Console, compilation: Compilation) -> None:
        self._compilation = compilation
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._bar = self._progress.add_task("", total=None)

    def update(self) -> None:
        self._compilation.refresh_from_db()
        share = self._compilation.progress
        self._progress.update(
            self._bar,
            description=compilations.sentence(self._compilation),
            total=None if share is None else 1.0,
            completed=share or 0.0,
        )


def compile_summary(console: Console, compilation: CompilationDict) -> None:
    """Print coverage, verdict and the latest benchmark."""
    if compilation["coverage"]:
        console.print(f"{compilations.coverage(compilation, named=True)}.", soft_wrap=True)
        for words in (compilations.choice, compilations.graphs, compilations.verdict, compilations.accuracy):
            if said := words(compilation):
                console.print(said, soft_wrap=True)
    if compilation["benchmarks"]:
        console.print(_benchmark(compilation["benchmarks"][0]))
        if batches := compilations.batches(compilation):
            console.print(_batches(batches))
        console.print(compilations.headline(compilation), soft_wrap=True)
        console.print(f"Estimate {units.latency(compilation['estimate_s'])}: {compilations.estimate(compilation)}.")
        if warning := compilations.restless(compilation["benchmarks"][0]):
            console.print(warning, style="yellow", soft_wrap=True)
    if compilation["error"]:
        console.print(compilation["error"], style="yellow")


def _benchmark(benchmark: BenchmarkDict) -> Table:
    table = Table(box=box.SIMPLE, title=f"Milliseconds per inference, {compilations.rounds(benchmark)}")
    table.add_column("", no_wrap=True)
    for title in ("Mean", "Median", "Max", "Min", "Std"):
        table.add_column(title, justify="right")
    for name, latency in compilations.sides(benchmark):
        figures = (latency[f"{key}_s"] for key in ("mean", "median", "max", "min", "std"))  # type: ignore[literal-required]
        table.add_row(name, *(units.UNKNOWN if seconds is None else f"{seconds * 1e3:,.4f}" for seconds in figures))
    return table


def _batches(rows: list[compilations.BatchRow]) -> Table:
    table = Table(box=box.SIMPLE, title="Milliseconds per inference by batch")
    for title in ("Batch", "Estimate", "Tuned", "Per sample", "ONNX Runtime", "Untuned"):
        table.add_column(title, justify="right")
    for row in rows:
        figures = (row.estimate_s, row.tuned_s, row.each_s, row.onnxruntime_s, row.untuned_s)
        table.add_row(str(row.batch), *map(units.milliseconds, figures))
    return table


def _detail(run: Run) -> str:
    if run.status == Run.Status.QUEUED:
        return f"queued: {run.waits}"
    task = "" if run.phase_task is None else f" task {run.phase_task}"
    failed = f" {run.trials_failed:,} failed" if run.trials_failed else ""
    left = run.remaining()
    remaining = f", {units.about(left.s)} left" if left else ""
    return f"{(run.phase or '').replace('_', ' ')}{task}{failed}{remaining}"


def _estimate(run: RunDict) -> str:
    coverage = run["words"]["coverage"]
    if run["estimated_latency_s"] is None:
        return run["words"]["unknown"] or f"unknown: {coverage}"
    return f"{units.latency(run['estimated_latency_s'])} ({coverage})"


def _mark(task: TaskDict) -> str:
    if not task["chosen"]:
        return " (not tuned)"
    return " (plateau)" if task["plateaued"] else ""


def _table(run: RunDict) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("ID", justify="right", no_wrap=True)
    table.add_column("Task", overflow="fold")
    for title in (
        "Weight",
        "FLOP",
        "Wall time" if run["simulator"] else "Latency",
        "GFLOPS",
        "Weighted",
        "Trials",
        "Failed",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for task in run.get("tasks", ()):
        best = task["best_latency_s"]
        table.add_row(
            str(task["index"]),
            task["name"] + _mark(task),
            units.count(task["weight"]),
            units.flop(task["flop"]),
            units.latency(best),
            units.gflops(task["gflops"]),
            units.latency(weighted(best, task["weight"])),
            str(task["trials"]),
            str(task["failed"]),
        )
    return table
