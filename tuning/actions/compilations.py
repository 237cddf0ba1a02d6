"""Actions on libraries: compile a run, cancel, prove and benchmark again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from tuning import audit
from tuning.engines.wire.compiling import CompileOptions
from tuning.models import Compilation, Run
from tuning.notify.announce import announce_compilation
from tuning.queue import jobs
from tuning.reads.artifacts import any_batch, check_published, choosing_trouble, compile_trouble, has_cuda_graphs
from tuning.storage import store
from tuning.validation import Conflict, Invalid, OptionDict, convert, options_of

Status, Stage = Compilation.Status, Compilation.Stage
OLD = timedelta(hours=1)
"""Folders without a compilation are removed at this age: a younger one may belong to a row that isn't committed yet."""


def compile_options() -> list[OptionDict]:
    return options_of(CompileOptions)


def compile_run(
    run: Run, data: Mapping[str, Any], user: User | None, *, enqueue: bool = True, wait: bool = True
) -> Compilation:
    """Queue a compilation of the run. Raises `Invalid` with the options at fault, or `Conflict`.

    Unless it is to `wait`, what isn't known yet of an older TVM is left to the job.
    """
    options = convert(CompileOptions, data)
    with audit.act(
        "run.compile",
        run,
        source=options.source,
        choose=options.choose,
        batches=options.batches,
        imported=options.imported_records,
    ) as act:
        imported = options.imported_records == "on"
        if trouble := compile_trouble(run, options.source, wait=wait, imported=imported):
            raise Conflict(trouble)
        if imported:
            _check_imported(run, options)
        if options.choose == "inside" and (trouble := choosing_trouble(run)):
            raise Invalid({"choose": trouble})
        batches = _all_batches(run, options) if options.batches == "all" else []
        stage = Stage.CHOOSE if options.choose == "inside" or imported else Stage.BUILD
        made = Compilation.objects.create(
            run=run,
            source=options.source,
            stage=stage,
            batches=batches,
            imported_records=imported,
            cuda_graphs=0 if options.cuda_graphs == "on" and has_cuda_graphs(run) else None,
            created_by=user,
            asked_by=user,
            queued_at=timezone.now(),
        )
        act.details["compilation"] = made.pk
    if enqueue:
        jobs.enqueue(made)
    return made


def _check_imported(run: Run, options: CompileOptions) -> None:
    """Raise `Invalid` if imported records can't be measured before they replace others."""
    if options.source != "library":
        raise Invalid(
            {"imported_records": "Only with records of the library: the run's own are used whoever measured them."}
        )
    if options.batches == "all":
        raise Invalid({"imported_records": "They are measured inside the network only of a library for one batch."})
    if trouble := choosing_trouble(run):
        raise Invalid({"imported_records": f"They must be measured first. {trouble}"})


def _all_batches(run: Run, options: CompileOptions) -> list[dict[str, Any]]:
    """The batches of a library that takes any, and the runs whose records it has. Raises `Invalid`."""
    if options.choose == "inside":
        raise Invalid({"choose": "Records are chosen inside the network only of a library for one batch."})
    found = any_batch(run)
    if found.trouble:
        raise Invalid({"batches": found.trouble})
    return [
        {"batch": batch, "run": one.pk, "network": one.tuned_network.pk, "estimate_s": None}
        for batch, one in found.runs.items()
    ]


def cancel(compilation: Compilation) -> Compilation:
    """End a queued compilation at once, and a running one as soon as its job notices. Raises `Conflict`."""
    with audit.act("compilation.cancel", _thing(compilation), run=compilation.run_id):
        if not (_end_queued(compilation) or compilation.move(Status.RUNNING, to=Status.CANCELLING)):
            compilation.refresh_from_db(fields=("status",))
            raise Conflict(f"The compilation is {compilation.status}: only a queued or running one can be cancelled.")
    announce_compilation(compilation.pk)
    return compilation


def benchmark(compilation: Compilation, user: User | None, *, enqueue: bool = True) -> Compilation:
    """Queue the library to be verified and benchmarked (again). Raises `Conflict`."""
    with audit.act("compilation.benchmark", _thing(compilation), run=compilation.run_id):
        check_published(compilation)
        if not compilation.requeue(*Compilation.ENDED, stage=Stage.PROVE, asked_by=user):
            compilation.refresh_from_db(fields=("status",))
            raise Conflict(f"The compilation is {compilation.status}: wait until that has ended to benchmark it.")
    announce_compilation(compilation.pk)
    if enqueue:
        jobs.enqueue(compilation)
    return compilation


def note_download(compilation: Compilation) -> None:
    """Record that the library is downloaded. It contains the network's weights."""
    audit.record("compilation.download", _thing(compilation), run=compilation.run_id)


def tidy() -> None:
    """Remove the folders of compilations that were deleted with their run."""
    rows = Compilation.objects.values_list("pk", "created_at")
    known = {Compilation(pk=pk, created_at=created_at).folder for pk, created_at in rows}
    for folder in store().old(Path(settings.VAR) / "compilations", OLD):
        if folder not in known:
            store().remove(folder)


def _thing(compilation: Compilation) -> audit.Thing:
    """A compilation is called like its run."""
    return audit.Thing("compilation", compilation.pk, compilation.run.name)


def _end_queued(compilation: Compilation) -> bool:
    return compilation.end(Status.QUEUED, to=compilation.without_result(Status.CANCELLED))
