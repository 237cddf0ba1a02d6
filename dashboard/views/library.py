"""The library: the best record of every workload, and all results of one workload."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.http.access import person
from tuning.models import Task
from tuning.reads import library
from tuning.reads.downloads import exportable
from tuning.validation import natural

from .queries import chosen, wants_part

PAGE = 50
COLUMNS = (
    ("name", "Workload", ""),
    ("", "Networks", ""),
    ("", "Target", ""),
    ("flop", "FLOP", "Floating-point operations of one execution"),
    ("latency", "Best latency", ""),
    ("gflops", "GFLOPS", "Of the best record"),
    ("", "Compared", "Runs that measured it, and how far the slowest run is behind the best"),
    ("run", "From", "The run and trial with the best latency"),
)
FIGURES = ("flop", "latency", "gflops")
DOWN_FIRST = ("gflops", "flop", "run")
"""Sorted in descending order at first."""


@require_GET
def library_page(request: HttpRequest) -> HttpResponse:
    """The workloads selected by the URL's `q`, `network` and `target`, sorted by `order`, from `offset` on."""
    wanted, offset = _wanted(request), _offset(request)
    entries = wanted.entries(offset, PAGE + 1)
    context = {
        "rows": [(one, one["slowest_latency_s"] / one["best"]["latency_s"] - 1) for one in entries[:PAGE]],
        "wanted": wanted,
        "total": wanted.count(),
        "first": offset + 1,
        "last": offset + len(entries[:PAGE]),
        "query": chosen(request.GET),
        "exports": _exports(wanted) if entries else [],
        "offset": offset,
        "newer": max(0, offset - PAGE) or None,
        "older": offset + PAGE if len(entries) > PAGE else None,
        "heads": [_head(wanted, *column) for column in COLUMNS],
        "networks": library.networks(wanted.user),
        "targets": library.targets(wanted.user),
        "any": bool(entries) or Task.objects.kept().seen_by(wanted.user).measured().exists(),
    }
    return render(request, "library/_list.html" if wants_part(request) else "library/list.html", context)


@require_GET
def workload_page(request: HttpRequest, shash: str) -> HttpResponse:
    """One workload: its function and what runs have measured for each target."""
    workload = library.workload(person(request), shash)
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
    imported = request.GET.get("imported") == "on"
    return library.LibraryFilter(person(request), **given, imported=imported)  # type: ignore[arg-type]


def _exports(wanted: library.LibraryFilter) -> list[tuple[str, str, str]]:
    """What can be exported of the filtered library: the engine, its title, and the file's address."""
    about = {
        "q": wanted.q,
        "network": wanted.network,
        "target": wanted.target,
        "imported": "true" if wanted.imported else "",
    }
    filters = {name: value for name, value in about.items() if value}
    address = reverse("api:get_library_records")
    return [
        (engine, title, f"{address}?{urlencode({'engine': engine, **filters})}") for engine, title in exportable(wanted)
    ]


def _offset(request: HttpRequest) -> int:
    return min(natural(request.GET.get("offset", "")) or 0, 10**9)


def _head(wanted: library.LibraryFilter, column: str, title: str, help_text: str) -> dict[str, Any]:
    """A column head. Its link sorts by `order`, which reverses the current order if it is by this column."""
    same = wanted.order.lstrip("-") == column
    down = not wanted.order.startswith("-") if same else column in DOWN_FIRST
    order = f"{'-' * down}{column}" if column else ""
    sorted_by = ("descending" if wanted.order.startswith("-") else "ascending") if same else ""
    return {"title": title, "help": help_text, "sorted": sorted_by, "figure": column in FIGURES, "order": order}
