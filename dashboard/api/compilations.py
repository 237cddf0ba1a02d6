"""Compile runs to libraries."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Query, Router, Status

from dashboard.accounts import CANCEL, CHANGE_COMPILATION, COMPILE
from dashboard.http.access import find, person
from dashboard.presentation import snippets
from tuning.actions import compilations
from tuning.models import Compilation, CompilationDict, RecordCoverageDict, Run
from tuning.reads import artifacts, console
from tuning.reads.console import ConsoleDict

from . import bodies, queries, shapes
from .auth import needs
from .shapes import ERRORS

router = Router(tags=["compilations"])


@router.get("runs/{number:run_id}/compilations", response={200: shapes.CompilationList, **ERRORS})
def list_compilations(request: HttpRequest, run_id: int) -> shapes.CompilationList:
    """The run's compilations, newest first."""
    run = find(request, Run.objects.all(), pk=run_id)
    return {"items": [one.to_dict() for one in Compilation.objects.shown().filter(run=run)]}


@router.post(
    "runs/{number:run_id}/compilations",
    response={201: CompilationDict, **ERRORS},
    auth=needs(COMPILE),
    openapi_extra=bodies.COMPILATION,
)
def compile_run(request: HttpRequest, run_id: int) -> Status[CompilationDict]:
    """Queue a compilation: build with the best records, verify, benchmark. Ask for its status to follow it."""
    run = find(request, Run.objects.select_related("network"), COMPILE, pk=run_id)
    made = compilations.compile_run(run, bodies.json_object(request), person(request))
    return Status(201, _compilation(request, made.pk).to_dict())


@router.get("runs/{number:run_id}/untuned", response={200: RecordCoverageDict, **ERRORS})
def get_untuned(request: HttpRequest, run_id: int, query: Query[queries.SourceQuery]) -> RecordCoverageDict:
    """Which tasks have no record, so that a compilation would build them untuned."""
    return artifacts.record_coverage(
        find(request, Run.objects.select_related("network"), pk=run_id), query.source.value
    )


@router.get("compilations/{number:compilation_id}", response={200: CompilationDict, **ERRORS})
def get_compilation(request: HttpRequest, compilation_id: int) -> CompilationDict:
    """The compilation with its benchmarks, newest first."""
    return _compilation(request, compilation_id).to_dict()


@router.post(
    "compilations/{number:compilation_id}/cancel",
    response={200: CompilationDict, **ERRORS},
    auth=needs(CANCEL),
)
def cancel_compilation(request: HttpRequest, compilation_id: int) -> CompilationDict:
    """Cancel the compilation. What it has finished is kept."""
    compilations.cancel(_compilation(request, compilation_id, CANCEL))
    return _compilation(request, compilation_id).to_dict()


@router.post(
    "compilations/{number:compilation_id}/benchmarks",
    response={202: CompilationDict, **ERRORS},
    auth=needs(CHANGE_COMPILATION),
)
def benchmark_compilation(request: HttpRequest, compilation_id: int) -> Status[CompilationDict]:
    """Verify and benchmark the library again when the device is free; earlier benchmarks are kept."""
    compilations.benchmark(_compilation(request, compilation_id, CHANGE_COMPILATION), person(request))
    return Status(202, _compilation(request, compilation_id).to_dict())


@router.get("compilations/{number:compilation_id}/log", response={200: ConsoleDict, **ERRORS})
def get_compile_log(request: HttpRequest, compilation_id: int, query: Query[queries.ConsoleQuery]) -> ConsoleDict:
    """What TVM, compilers and linker printed: the end, or the part after a byte offset."""
    return console.console(_compilation(request, compilation_id), after=query.after)


@router.get("compilations/{number:compilation_id}/snippets", response={200: shapes.SnippetList, **ERRORS})
def get_snippets(request: HttpRequest, compilation_id: int) -> shapes.SnippetList:
    """Programs that load and run the downloaded library."""
    compilation = _compilation(request, compilation_id)
    artifacts.check_published(compilation)
    return {"items": snippets.snippets(compilation)}


def _compilation(request: HttpRequest, key: int, permission: str = "") -> Compilation:
    return find(request, Compilation.objects.shown(), permission, pk=key)
