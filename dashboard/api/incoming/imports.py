"""Import record logs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from django.http import HttpRequest
from ninja import File, Form, Router, Status
from ninja.files import UploadedFile
from typing_extensions import TypedDict

from dashboard.accounts import CANCEL_IMPORT, LAUNCH
from dashboard.api.auth import needs
from dashboard.api.shapes import ERRORS
from dashboard.http.access import find, person
from tuning.actions.incoming import imports
from tuning.models import Import, ImportDict
from tuning.validation import Invalid

router = Router(tags=["imports"])


class BadLineDict(TypedDict):
    """A line that couldn't be read; `line` counts from 1."""

    file: str
    line: int
    reason: str


class BadLineList(TypedDict):
    """Of an import, in order. Some thousands are kept at most, and all are counted in the import."""

    items: list[BadLineDict]


@router.post("imports", response={202: ImportDict, **ERRORS}, auth=needs(LAUNCH))
def start_import(  # noqa: PLR0913, PLR0917 - the fields of a form
    request: HttpRequest,
    files: Annotated[list[UploadedFile], File(description="Record logs; gzip and zip, too.")],
    paths: Annotated[str, Form(description="JSON list: the files' names with their folders.")] = "",
    name: Annotated[str, Form(description="The runs' name. By default, that of the file.")] = "",
    network: Annotated[str, Form(description="The network that was tuned. By default it isn't recorded.")] = "",
    weights: Annotated[str, Form(description='How often tasks occur: `{"fused_matmul": 2}`.')] = "",
    again: Annotated[str, Form(description="`true` imports records again that a run has already.")] = "",
    project: Annotated[str, Form(description="By name; can be left out by those who have only one.")] = "",
) -> Status[ImportDict]:
    """Make a run of each log and target. Ask for the import until it has ended."""
    about = {"name": name, "network": network, "weights": weights, "again": again, "project": project}
    named = list(zip(_names(paths, files), files, strict=True))
    return Status(202, imports.start(named, about, person(request)).to_dict())


@router.get("imports/{number:import_id}", response={200: ImportDict, **ERRORS})
def get_import(request: HttpRequest, import_id: int) -> ImportDict:
    """The import, with its progress and what became of each log."""
    return _import(request, import_id).to_dict()


@router.get("imports/{number:import_id}/bad-lines", response={200: BadLineList, **ERRORS})
def list_bad_lines(request: HttpRequest, import_id: int) -> BadLineList:
    """The lines that couldn't be read."""
    lines = _import(request, import_id).bad_line_set.all()
    return {"items": [{"file": one.file, "line": one.line, "reason": one.reason} for one in lines]}


@router.post("imports/{number:import_id}/cancel", response={200: ImportDict, **ERRORS}, auth=needs(CANCEL_IMPORT))
def cancel_import(request: HttpRequest, import_id: int) -> ImportDict:
    """Cancel the import. Nothing of it is kept."""
    return imports.cancel(_import(request, import_id, CANCEL_IMPORT)).to_dict()


def _import(request: HttpRequest, key: int, permission: str = "") -> Import:
    return find(request, Import.objects.select_related("project", "created_by"), permission, pk=key)


def _names(paths: str, files: list[UploadedFile]) -> list[str]:
    """The names to show. Raises `Invalid`."""
    if not paths.strip():
        return [file.name or "" for file in files]
    try:
        names = msgspec.json.decode(paths, type=list[str])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid({"paths": "Must be a JSON list of names."}) from error
    if len(names) != len(files):
        raise Invalid({"paths": f"There are {len(names)} names for {len(files)} files."})
    return names
