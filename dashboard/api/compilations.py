"""Compile runs to libraries."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from dashboard.accounts import CHANGE_COMPILATION, COMPILE
from dashboard.presentation import snippets
from tuning.actions import compilations
from tuning.models import Compilation, CompilationDict, Run
from tuning.reads import artifacts, console
from tuning.reads.console import ConsoleDict

from . import bodies, queries, shapes
from .auth import needs
from .shapes import ERRORS

router = Router(tags=["compilations"])


@router.get("runs/{int:run_id}/compilations", response={200: shapes.CompilationList, **ERRORS})
def list_compilations(request: HttpRequest, run_id: int) -> shapes.CompilationList:  # noqa: ARG001
    """The run's compilations, newest first."""
    run = get_object_or_404(Run, pk=run_id)
    return {"items": [one.to_dict() for one in Compilation.objects.shown().filter(run=run)]}


@router.post(
    "runs/{int:run_id}/compilations",
    response={201: CompilationDict, **ERRORS},
    auth=needs(COMPILE),
    openapi_extra=bodies.COMPILATION,
)
def compile_run(request: HttpRequest, run_id: int) -> Status[CompilationDict]:
    """Queue a compilation: build with the best records, verify, benchmark. Ask for its status to follow it."""
    assert isinstance(request.user, User)
    run = get_object_or_404(Run.objects.select_related("network"), pk=run_id)
    made = compilations.compile_run(run, bodies.json_object(request), request.user)
    return Status(201, _compilation(made.pk).to_dict())


@router.get("compilations/{int:compilation_id}", response={200: CompilationDict, **ERRORS})
def get_compilation(request: HttpRequest, compilation_id: int) -> CompilationDict:  # noqa: ARG001
    """The compilation with its benchmarks, newest first."""
    return _compilation(compilation_id).to_dict()


@router.post(
    "compilations/{int:compilation_id}/cancel",
    response={200: CompilationDict, **ERRORS},
    auth=needs(CHANGE_COMPILATION),
)
def cancel_compilation(request: HttpRequest, compilation_id: int) -> CompilationDict:  # noqa: ARG001
    """Cancel the compilation. What it has finished is kept."""
    compilations.cancel(_compilation(compilation_id))
    return _compilation(compilation_id).to_dict()


@router.post(
    "compilations/{int:compilation_id}/benchmarks",
    response={202: CompilationDict, **ERRORS},
    auth=needs(CHANGE_COMPILATION),
)
def benchmark_compilation(request: HttpRequest, compilation_id: int) -> Status[CompilationDict]:
    """Verify and benchmark the library again when the device is free; earlier benchmarks are kept."""
    assert isinstance(request.user, User)
    compilations.benchmark(_compilation(compilation_id), request.user)
    return Status(202, _compilation(compilation_id).to_dict())


@router.get("compilations/{int:compilation_id}/log", response={200: ConsoleDict, **ERRORS})
def get_compile_log(request: HttpRequest, compilation_id: int, query: Query[queries.ConsoleQuery]) -> ConsoleDict:  # noqa: ARG001
    """What TVM, compilers and linker printed: the end, or the part after a byte offset."""
    return console.console(_compilation(compilation_id), after=query.after)


@router.get("compilations/{int:compilation_id}/snippets", response={200: shapes.SnippetList, **ERRORS})
def get_snippets(request: HttpRequest, compilation_id: int) -> shapes.SnippetList:  # noqa: ARG001
    """Programs that load and run the downloaded library."""
    compilation = _compilation(compilation_id)
    artifacts.check_published(compilation)
    return {"items": snippets.snippets(compilation)}


def _compilation(key: int) -> Compilation:
    return get_object_or_404(Compilation.objects.shown(), pk=key)
