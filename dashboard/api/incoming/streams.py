"""Trials that scripts of one's own send while they tune (docs/streaming.md)."""

from __future__ import annotations

from pathlib import Path

from django.http import HttpRequest, HttpResponse
from ninja import Router

from dashboard.accounts import LAUNCH
from dashboard.api import bodies
from dashboard.api.auth import needs
from dashboard.api.shapes import ERRORS
from dashboard.http.access import find, person
from tuning.models import Run, StreamDict
from tuning.streams import receiving

router = Router(tags=["streams"])
SCRIPT = Path(__file__).parents[2] / "client" / "tuneboard.py"


TEXT = {"text/x-python": {"schema": {"type": "string", "format": "binary"}}}


@router.get(
    "tuneboard.py",
    response=ERRORS,
    url_name="stream_script",
    openapi_extra={"responses": {200: {"description": "The file", "content": TEXT}}},
)
def get_script(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    """The file to put beside your own script: it sends what the script measures."""
    headers = {"Content-Disposition": 'attachment; filename="tuneboard.py"'}
    return HttpResponse(SCRIPT.read_bytes(), content_type="text/x-python; charset=utf-8", headers=headers)


@router.post("streams", response={200: StreamDict, **ERRORS}, auth=needs(LAUNCH), openapi_extra=bodies.STREAM)
def begin_stream(request: HttpRequest) -> StreamDict:
    """Begin a run, or continue the one of this name in the project. Asked again for the same session, it says how far that is."""
    return receiving.begin(bodies.json_object(request), person(request))


@router.post(
    "streams/{number:run_id}/trials",
    response={200: StreamDict, **ERRORS},
    auth=needs(LAUNCH),
    openapi_extra=bodies.STREAM_BATCH,
)
def send_trials(request: HttpRequest, run_id: int) -> StreamDict:
    """Send the session's next tasks and trials, or nothing: that says that the script is alive.

    What is stored already is ignored, and so is what comes after a gap: go on with the number after `have`. Without a message
    for three minutes the run is `interrupted`; the next one continues it. 409: the run was deleted, or the session has ended.
    """
    return receiving.take(_run(request, run_id), bodies.json_object(request))


@router.post(
    "streams/{number:run_id}/end",
    response={200: StreamDict, **ERRORS},
    auth=needs(LAUNCH),
    openapi_extra=bodies.STREAM_END,
)
def end_stream(request: HttpRequest, run_id: int) -> StreamDict:
    """End the session, and with its last session the run."""
    return receiving.end(_run(request, run_id), bodies.json_object(request))


def _run(request: HttpRequest, run_id: int) -> Run:
    """A deleted run is found, too, so that its script learns what became of it."""
    return find(request, Run.everything.all(), LAUNCH, pk=run_id)
