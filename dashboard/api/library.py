"""The tuning library."""

from __future__ import annotations

from django.http import Http404, HttpRequest
from ninja import Query, Router
from typing_extensions import TypedDict

from dashboard.http.access import person
from tuning.reads.library import EntryDict, WorkloadDict, workload

from . import queries
from .shapes import ERRORS

router = Router(tags=["library"])


class LibraryPage(TypedDict):
    """Entries, their total number, and the offset of the next page, if there is one."""

    items: list[EntryDict]
    total: int
    next: int | None


@router.get("library", response={200: LibraryPage, **ERRORS})
def list_library(request: HttpRequest, query: Query[queries.LibraryQuery]) -> LibraryPage:
    """The best record of each workload on each target, over all runs of your projects."""
    wanted = query.filter(person(request))
    found, total = wanted.entries(query.offset, query.limit), wanted.count()
    after = query.offset + len(found)
    return {"items": found, "total": total, "next": after if found and after < total else None}


@router.get("library/{slug:workload_hash}", response={200: WorkloadDict, **ERRORS})
def get_workload(request: HttpRequest, workload_hash: str) -> WorkloadDict:
    """One workload: its function and every run's measurements by target."""
    found = workload(person(request), workload_hash)
    if found is None:
        raise Http404
    return found
