"""The tuning library: the best known of every workload, and all that was measured of one."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from tuning.models import Task
from tuning.reads import library

PAGE = 50
COLUMNS = (
    ("name", "Workload", ""),
    ("", "Networks", ""),
    ("", "Target", ""),
    ("flop", "FLOP", "Floating-point operations of one execution"),
    ("latency", "Best latency", ""),
    ("gflops", "GFLOPS", "Of the best"),
    ("", "Compared", "Runs that measured it, and how far the slowest of their bests is from the best"),
    ("run", "From", "The run and trial that measured the best"),
)
FIGURES = ("flop", "latency", "gflops")
DOWN_FIRST = ("gflops", "flop", "run")
"""Looked at from the largest on."""


@require_GET
def library_page(request: HttpRequest) -> HttpResponse:
    """The best known of the workloads that the URL's `q`, `network` and `target` ask for, by `order`, from `offset` on."""
    wanted, offset = _wanted(request), _offset(request)
    entries = wanted.entries(offset, PAGE + 1)
    context = {
        "rows": [(one, one["slowest_latency_s"] / one["best"]["latency_s"] - 1) for one in entries[:PAGE]],
        "wanted": wanted,
        "total": wanted.count(),
        "first": offset + 1,
        "last": offset + len(entries[:PAGE]),
        "newer": _url(request, offset=max(0, offset - PAGE) or None) if offset else None,
        "older": _url(request, offset=offset + PAGE) if len(entries) > PAGE else None,
        "heads": [_head(request, wanted, *column) for column in COLUMNS],
        "networks": library.networks(),
        "targets": library.targets(),
        "any": bool(entries) or Task.objects.kept().measured().exists(),
    }
    part = request.htmx and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    return render(request, "library/_list.html" if part else "library/list.html", context)


@require_GET
def workload_page(request: HttpRequest, shash: str) -> HttpResponse:
    """One workload: its function, and what runs measured of it on each target."""
    workload = library.workload(shash)
    if workload is None:
        raise Http404
    targets = [
        (target, [(one, one["latency_s"] / target["measured"][0]["latency_s"] - 1) for one in target["measured"]])
        for target in workload["targets"]
    ]
    return render(request, "library/workload.html", {"workload": workload, "targets": targets})


def _wanted(request: HttpRequest) -> library.LibraryFilter:
    given = {name: request.GET.get(name, "").replace("\0", "").strip() for name in ("q", "network", "target", "order")}
    if given["order"] not in get_args(library.LibraryOrder):
        del given["order"]
    return library.LibraryFilter(**given)  # type: ignore[arg-type]


def _offset(request: HttpRequest) -> int:
    offset = request.GET.get("offset", "")
    return min(int(offset), 10**9) if offset.isascii() and offset.isdecimal() else 0


def _head(
    request: HttpRequest, wanted: library.LibraryFilter, column: str, title: str, help_text: str
) -> dict[str, Any]:
    """One of the table's heads; one that orders leads to the page in that order, or the other way round."""
    same = wanted.order.lstrip("-") == column
    down = not wanted.order.startswith("-") if same else column in DOWN_FIRST
    sort = {"url": _url(request, order=f"{'-' * down}{column}", offset=None)} if column else {}
    sorted_by = ("descending" if wanted.order.startswith("-") else "ascending") if same else ""
    return {"title": title, "help": help_text, "sorted": sorted_by, "figure": column in FIGURES, **sort}


def _url(request: HttpRequest, **changes: Any) -> str:
    """This page with these changes of its query, of which None takes a name away."""
    query = {**request.GET.dict(), **changes}
    return f"?{urlencode({name: value for name, value in query.items() if value not in (None, '')})}"
