"""The trials of a run in pages. The URL holds filters, order and the opened trial."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_args

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from dashboard.http.access import find
from dashboard.http.paging import page
from dashboard.presentation import charts, downloads
from dashboard.views.queries import chosen
from tuning.models import MAX_NUMBER, Run, TrialRow
from tuning.reads import exploring
from tuning.reads.exploring import TrialFilter, TrialOrder
from tuning.validation import Invalid

T = TypeVar("T")
PAGE = 50
ONLY: dict[str, tuple[str, dict[str, bool]]] = {
    "": ("All trials", {}),
    "valid": ("Valid", {"failed": False}),
    "improved": ("Improved the best", {"improved": True}),
    "failed": ("Failed", {"failed": True}),
    "noisy": ("Noisy", {"noisy": True}),
}
UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
LABELS = {
    "task": "Task",
    **dict.fromkeys(("only", "failed", "improved", "noisy"), "Outcome"),
    "machine": "Machine",
    "min": "Latency from",
    "max": "Latency to",
    **dict.fromkeys(("from", "after"), "Jump to trial"),
    "order": "Order",
    "cursor": "Page",
}
"""What the page calls the parameters of its address, and the conditions that they become."""
COLUMNS = (("number", "Trial"), ("task", "Task"), ("latency_s", "Latency"), ("at_s", "Time"))


@require_GET
def trials_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The trials selected by the query; status 422 and a message if the query is invalid."""
    run = find(request, Run.objects.select_related("network"), pk=pk)
    tasks = {task.pk: task for task in run.tasks.defer("tensorir").order_by("index")}
    errors = {error.pk: error for error in run.errors.all()}
    machines = run.measurers().names()
    wrong: dict[str, str] = {}
    rows: list[Any] = []
    following, wanted = None, TrialFilter()
    try:
        wanted = _wanted(request)
        found = exploring.trials(run, wanted).values_list(*TrialRow._fields, named=True)
        rows, following = page(found, wanted.column, request.GET.get("cursor"), PAGE, key="number")
    except Invalid as invalid:
        wrong = invalid.fields
    plotted = [task for task in tasks.values() if wanted.task in (None, task.index)]
    context = {
        "run": run,
        "tasks": tasks.values(),
        "rows": [(row, tasks[row.task_id], errors.get(row.error_id), machines.get(row.machine_id)) for row in rows],
        "asked": request.GET,
        "machines": [*machines.values()] if len(machines) > 1 else [],
        "only": [(value, title) for value, (title, _) in ONLY.items()],
        "heads": [_head(wanted.order, column, _title(run, title)) for column, title in COLUMNS],
        "labels": LABELS,
        "invalid": wrong,
        "wrong": [(LABELS.get(name, name), text) for name, text in wrong.items()],
        "query": chosen(request.GET),
        "next": following,
        "begun": bool(request.GET.get("cursor") or request.GET.get("from")),
        "detail": _detail(request, run),
        "scatter": {
            "figure": charts.told(run, charts.scatter_figure(plotted, only_failed=bool(wanted.failed))),
            "foremost": charts.foremost(plotted),
            "wanted": _conditions(wanted),
        },
        "file": downloads.stem(run),
    }
    return render(request, "runs/trials.html", context, status=422 if wrong else 200)


def _wanted(request: HttpRequest) -> TrialFilter:
    """Raises `Invalid` that names every invalid parameter."""
    asked = request.GET
    wrong: dict[str, str] = {}

    def read(parse: Callable[[HttpRequest, str], T], name: str) -> T | None:
        try:
            return parse(request, name)
        except Invalid as invalid:
            wrong.update(invalid.fields)
            return None

    only, order = asked.get("only", ""), asked.get("order", "number")
    task, start = read(_number, "task"), read(_number, "from")
    least, most = read(_seconds, "min"), read(_seconds, "max")
    if only not in ONLY:
        wrong["only"] = f"Must be one of {', '.join(filter(None, ONLY))}."
    if order not in get_args(TrialOrder):
        wrong["order"] = f"Must be one of {', '.join(get_args(TrialOrder))}."
    elif start is not None and order not in ("number", "at_s"):
        wrong["from"] = "Jumping to a trial works only in the order of trials or times."
    if wrong:
        raise Invalid(wrong)
    return TrialFilter(
        order=cast("TrialOrder", order),
        after=max(0, (start or 1) - 1),
        task=task,
        machine=asked.get("machine", ""),
        min=least,
        max=most,
        **ONLY[only][1],
    )


def _conditions(wanted: TrialFilter) -> dict[str, Any]:
    """What the table's filter means for the scatter, in which failed trials would be part of any range."""
    names = ("task", "failed", "improved", "noisy", "machine", "min", "max")
    conditions = {name: getattr(wanted, name) for name in names}
    return {**conditions, "failed": False} if wanted.ranged else conditions


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > MAX_NUMBER:
        raise Invalid({name: "Must be a whole number."})
    return int(text)


def _seconds(request: HttpRequest, name: str) -> float | None:
    """`20 us`, `1.5ms` or plain seconds."""
    text = request.GET.get(name, "").strip()
    if not text:
        return None
    match = re.fullmatch(
        r"([0-9]*\.?[0-9]+(?:e-?[0-9]{1,2})?)\s*(\w*)", text, re.ASCII | re.IGNORECASE
    ) or re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([µμ]s)", text)
    if match is None or match[2].lower() not in UNITS:
        raise Invalid({name: "Write a latency as 20 us, 1.5 ms or 0.002 (seconds)."})
    return float(match[1]) * UNITS[match[2].lower()]


def _detail(request: HttpRequest, run: Run) -> dict[str, Any] | None:
    """The trial opened by the URL. Raises `Http404` if the run has no such trial."""
    text = request.GET.get("trial", "")
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise Http404
    trial = get_object_or_404(run.trials.select_related("task", "error", "machine"), number=min(int(text), MAX_NUMBER))
    best = trial.task.best_latency_s
    return {
        "trial": trial,
        "slower": trial.latency_s / best - 1 if trial.latency_s and best else None,
        "gflops": trial.task.gflops_at(trial.latency_s) if trial.latency_s else None,
    }


def _title(run: Run, title: str) -> str:
    return "Wall time" if title == charts.LATENCY and run.simulator else title


def _head(order: str, column: str, title: str) -> dict[str, Any]:
    """A column head. Its link sorts by `order`, which reverses the current order if it is by this column."""
    same, down = order.lstrip("-") == column, order.startswith("-")
    return {
        "title": title,
        "column": column,
        "order": f"-{column}" if same and not down else column,
        "sorted": ("descending" if down else "ascending") if same else "",
    }
