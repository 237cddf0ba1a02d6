"""What users can have done about libraries: compile a run, cancel, prove and benchmark again."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from tuning.engines.wire.compiling import CompileOptions
from tuning.engines.wire.versions import in_use
from tuning.models import Compilation, Record, Run
from tuning.notify import webhooks
from tuning.notify.announce import announce_compilation
from tuning.queue import jobs
from tuning.reads.downloads import File, console_file, file_pieces
from tuning.reads.library import is_known
from tuning.validation import Conflict, OptionDict, convert, options_of

logger = logging.getLogger(__name__)
Status, Stage = Compilation.Status, Compilation.Stage
TVM = ("apache-tvm", "apache-tvm-ffi")
OLD_S = 3600.0
"""A folder without a compilation is removed when it is this old."""


def compile_options() -> list[OptionDict]:
    """How a run can be compiled."""
    return options_of(CompileOptions)


def compile_trouble(run: Run, source: str = Compilation.Source.RUN) -> str | None:
    """Why the run can't be compiled now, in words; None when it can."""
    if run.synthetic:
        return "The run is synthetic: its records can't be compiled."
    if source == Compilation.Source.LIBRARY:
        return (
            None
            if is_known(run)
            else "No run has a valid record of its workloads for this target by the installed TVM."
        )
    if not Record.objects.filter(task__run=run).exists():
        return "The run has no valid record yet: there is nothing to compile it with."
    return other_tvm(run.versions)


def other_tvm(versions: Mapping[str, str]) -> str | None:
    """Why records made by these versions can't be used here; None when they can, or when it wasn't recorded who made them."""
    here = in_use()
    other = [f"{name} {versions[name]}" for name in TVM if name in versions and versions[name] != here.get(name)]
    if not other:
        return None
    ours = " and ".join(f"{name} {here.get(name, 'none')}" for name in TVM)
    return (
        f"Its records were made by {' and '.join(other)}, and {ours} is installed here, which may read them otherwise. "
        "Tune the network again: a warm start begins with what still applies."
    )


def compile_run(run: Run, data: Mapping[str, Any], user: User | None, *, enqueue: bool = True) -> Compilation:
    """Queue a compilation of the run. Raises `Invalid` that names the options at fault, or `Conflict`."""
    options = convert(CompileOptions, data)
    if trouble := compile_trouble(run, options.source):
        raise Conflict(trouble)
    made = Compilation.objects.create(
        run=run, source=options.source, created_by=user, asked_by=user, queued_at=timezone.now()
    )
    if enqueue:
        jobs.enqueue_compilation(made)
    return made


def cancel(compilation: Compilation) -> Compilation:
    """A queued one ends at once, a running one as soon as its job hears of it. Raises `Conflict`."""
    if not (_end_queued(compilation) or compilation.move(Status.RUNNING, to=Status.CANCELLING)):
        compilation.refresh_from_db(fields=("status",))
        raise Conflict(f"The compilation is {compilation.status}: only a queued or running one can be cancelled.")
    announce_compilation(compilation.pk)
    return compilation


def benchmark(compilation: Compilation, user: User | None, *, enqueue: bool = True) -> Compilation:
    """Queue its library to be proven and benchmarked (again). Raises `Conflict`."""
    check_published(compilation)
    if not compilation.requeue(*Compilation.ENDED, stage=Stage.PROVE, asked_by=user):
        compilation.refresh_from_db(fields=("status",))
        raise Conflict(f"The compilation is {compilation.status}: it can be benchmarked when that has ended.")
    announce_compilation(compilation.pk)
    if enqueue:
        jobs.enqueue_compilation(compilation)
    return compilation


def check_published(compilation: Compilation) -> None:
    """Raises `Conflict` when there is no library."""
    if not compilation.is_published:
        raise Conflict(f"There is no library: the compilation is {compilation.status}.")


def library_file(compilation: Compilation) -> File:
    """The shared library. Raises `Conflict`."""
    return _file(compilation, compilation.library, "application/octet-stream")


def manifest_file(compilation: Compilation) -> File:
    """What the library is, as JSON. Raises `Conflict`."""
    return _file(compilation, compilation.manifest, "application/json")


def log_file(compilation: Compilation) -> File:
    """What TVM, compilers and linker printed. Raises `Conflict` when that is nothing."""
    return console_file(compilation, f"compilation-{compilation.pk}_console.log")


def _file(compilation: Compilation, path: Path, kind: str) -> File:
    check_published(compilation)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise Conflict("The library's files aren't on this machine (any more).") from None
    name = f"compilation-{compilation.pk}{path.suffix}"
    return File(name, kind, f"{name} {compilation.sha256}", file_pieces(path, size), size)


def sweep() -> None:
    """End what lost its job, tell the workers again of what the broker lost, and remove what nobody needs."""
    for compilation in Compilation.objects.abandoned():
        _bury(compilation)
    for compilation in Compilation.objects.select_related("run").forgotten():
        jobs.enqueue_compilation(compilation)
    _tidy(set(Compilation.objects.values_list("pk", "created_at")))


def _end_queued(compilation: Compilation) -> bool:
    """A proof that waits leaves the library, which was compiled all the same."""
    ended = Status.FINISHED if compilation.verified is not None else Status.CANCELLED
    return webhooks.end(compilation, Status.QUEUED, to=ended, finished_at=timezone.now())


def _bury(compilation: Compilation) -> None:
    """One that was being cancelled is; of any other its user should know that the worker died."""
    gone = {"finished_at": timezone.now(), "phase": None, "progress": None}
    mine = {"lease": compilation.lease}
    moved = webhooks.end(compilation, Status.CANCELLING, to=Status.CANCELLED, mine=mine, **gone)
    if not moved:
        error = "The worker stopped responding. " + ("Benchmark" if compilation.is_published else "Compile") + " again."
        moved = webhooks.end(compilation, Status.RUNNING, to=Status.FAILED, mine=mine, error=error, **gone)
    if moved:
        logger.warning("Compilation %s lost its worker.", compilation.pk)
        compilation.remove_unpublished()
        announce_compilation(compilation.pk)


def _tidy(known: Iterable[tuple[int, datetime]]) -> None:
    """Remove the folders of compilations that were deleted with their run."""
    kept = {Compilation(pk=key, created_at=at).folder for key, at in known}
    for folder in (Path(settings.VAR) / "compilations").glob("*"):
        if folder not in kept and time.time() - folder.stat().st_mtime > OLD_S:
            shutil.rmtree(folder, ignore_errors=True)
