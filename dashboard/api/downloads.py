"""A run's results as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router

from dashboard.http.access import find, person
from dashboard.http.conditional import etag_for
from dashboard.http.downloads import attachment, response
from dashboard.presentation import snippets
from dashboard.presentation.downloads import stem
from tuning.actions import compilations
from tuning.models import Compilation, Network, Run
from tuning.reads import artifacts, downloads
from tuning.reads.comparing import runs_of
from tuning.reads.files import model_file

from . import queries
from .shapes import ERRORS

router = Router(tags=["downloads"])
V = TypeVar("V", bound=Callable[..., HttpResponseBase])


def download(path: str, *content_types: str, name: str | None = None) -> Callable[[V], V]:
    """Route a view that returns a file, for GET and HEAD."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    ok = {"description": "The file", "content": dict.fromkeys(content_types, binary)}

    def routed(view: V) -> V:
        router.api_operation(["HEAD"], path, response=ERRORS, include_in_schema=False)(view)
        router.get(path, response=ERRORS, openapi_extra={"responses": {200: ok}}, url_name=name)(view)
        return view

    return routed


@download("runs/{number:run_id}/records", "application/zip", "application/jsonl")
def get_records(request: HttpRequest, run_id: int, query: Query[queries.RecordQuery]) -> HttpResponseBase:
    """Records as stock TVM reads them (a zip of MetaSchedule's two files, or one log), or as JSON lines. 409 if there are none yet."""
    run = _run(request, run_id)
    found = downloads.record_file(run, query.format, query.which, k=query.k, task=query.task)
    return response(request, run, found)


@download("records", "application/zip", "application/jsonl", name="get_merged_records")
def get_merged_records(request: HttpRequest, query: Query[queries.MergeQuery]) -> HttpResponseBase:
    """Records of several runs of one engine in one file: all, or the best of each workload. 409 if there are none yet."""
    runs = runs_of(person(request), query.runs, 1, queries.MOST_MERGED)
    return response(request, runs, downloads.merged_file(runs, query.format, query.which, k=query.k))


@download("records/library", "application/zip", "application/jsonl", name="get_library_records")
def get_library_records(request: HttpRequest, query: Query[queries.LibraryRecordsQuery]) -> HttpResponseBase:
    """The best record of each workload on each target, as one engine's own tools read them. 409 if there are none."""
    user = person(request)
    file = downloads.Exported.of(query.filter(user), query.engine).file()
    return attachment(request, file, "library", etag_for(f"library {user.pk} {file.version}"))


@download("runs/{number:run_id}/trials.csv", "text/csv")
def get_trials_csv(request: HttpRequest, run_id: int, query: Query[queries.TaskQuery]) -> HttpResponseBase:
    """All trials as CSV; latencies and times in seconds, empty if not measured."""
    run = _run(request, run_id)
    return response(request, run, downloads.trial_file(run, "csv", task=query.task))


@download("runs/{number:run_id}/trials.parquet", "application/vnd.apache.parquet")
def get_trials_parquet(request: HttpRequest, run_id: int, query: Query[queries.TaskQuery]) -> HttpResponseBase:
    """All trials as Parquet with the columns of the CSV; metadata has the run, network and target."""
    run = _run(request, run_id)
    return response(request, run, downloads.trial_file(run, "parquet", task=query.task))


@download("runs/{number:run_id}/console.log", "text/plain")
def get_console_log(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """Everything that the engine, TVM and compilers have printed so far."""
    run = _run(request, run_id)
    return response(request, run, downloads.console_file(run))


@download("networks/{number:network_id}/model", "application/octet-stream")
def get_model(request: HttpRequest, network_id: int) -> HttpResponseBase:
    """What engines read of an uploaded model: the file itself, or the ONNX file that it was converted to. 409 if there is none."""
    network = find(request, Network.objects.all(), pk=network_id)
    file = model_file(network)
    return attachment(request, file, network.name, etag_for(f"{network.pk} {file.version}"))


@download("compilations/{number:compilation_id}/artifact", "application/octet-stream")
def get_artifact(request: HttpRequest, compilation_id: int) -> HttpResponseBase:
    """The shared library of a compilation. 409 if there is none."""
    compilation = _compilation(request, compilation_id)
    answer = response(request, compilation.run, artifacts.library_file(compilation))
    if request.method == "GET" and answer.status_code == 200:
        compilations.note_download(compilation)
    return answer


@download("compilations/{number:compilation_id}/bundle", "application/zip")
def get_bundle(request: HttpRequest, compilation_id: int) -> HttpResponseBase:
    """One zip with the library, its manifest with proof and benchmark, programs that run it, and the licenses of what is inside."""
    compilation = _compilation(request, compilation_id)
    programs = {one["file_name"]: one["text"] for one in snippets.snippets(compilation)}
    library = f"{stem(compilation.run)}_{artifacts.library_file(compilation).name}"
    answer = response(request, compilation.run, downloads.bundle_file(compilation, library, programs))
    if request.method == "GET" and answer.status_code == 200:
        compilations.note_download(compilation)
    return answer


@download("compilations/{number:compilation_id}/manifest", "application/json")
def get_manifest(request: HttpRequest, compilation_id: int) -> HttpResponseBase:
    """A description of the library: versions, target, inputs, outputs, the record of each function, checksums."""
    compilation = _compilation(request, compilation_id)
    return response(request, compilation.run, artifacts.manifest_file(compilation))


@download("compilations/{number:compilation_id}/console.log", "text/plain")
def get_compile_console_log(request: HttpRequest, compilation_id: int) -> HttpResponseBase:
    """Everything that TVM, compilers and linker printed, also if the compilation failed."""
    compilation = _compilation(request, compilation_id)
    return response(request, compilation.run, artifacts.log_file(compilation))


def _compilation(request: HttpRequest, key: int) -> Compilation:
    return find(request, Compilation.objects.kept().select_related("run__network"), pk=key)


def _run(request: HttpRequest, run_id: int) -> Run:
    return find(request, Run.objects.select_related("network"), pk=run_id)
