"""The page of one task and its best records."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from dashboard.http.access import find
from dashboard.presentation import charts, code, downloads, recorded
from dashboard.presentation.tasks import deciding, decisions, listing
from dashboard.views.queries import wants_part
from tuning.models import Task
from tuning.reads import showing
from tuning.reads.records import Missing, TrialRecord, decided, of_trial
from tuning.reads.showing import Listing, Shown
from tuning.validation import Busy

POINTS = 4000
BEFORE = "before"
"""Compares a record's function with the one before any schedule."""


@require_GET
def task_page(request: HttpRequest, pk: int, index: int) -> HttpResponse:
    """The task, its curve and its best records; `record` opens one of them. htmx gets only the records.

    `record` is the number of any trial of the task. `diff` selects what to compare it with: `before` or the number of another trial.
    `of=schedule` compares the schedules instead of the TensorIR. `code` shows what is made of the record instead: a kind of listing.
    """
    task = _task(request, pk, index)
    asked = {name: request.GET[name] for name in ("record", "diff", "of", "code") if request.GET.get(name)}
    records = _rows(task)
    context = {"task": task, "run": task.run, "records": records, "asked": asked, "here": urlencode(asked)}
    context["other_kept"] = asked.get("diff") in {str(row["record"].trial) for row in records}
    context |= _opened(task, **asked) if "record" in asked else {}
    if wants_part(request):
        return render(request, "tasks/_opened.html", context)
    context |= recorded.knobs(task) | recorded.arguments(task)
    alert = next((alert for alert in task.run.alerts(task.run.tasks.defer("tensorir")) if alert["task"] == index), None)
    best = task.run.trials.filter(number=task.best_trial or 0, noisy=True)
    return render(
        request,
        "tasks/page.html",
        {**context, "alert": alert, "noisy": best.exists(), "downloads": downloads.menu(task.run, task)},
    )


@require_GET
def task_figures(request: HttpRequest, pk: int, index: int) -> JsonResponse:
    """The task's Plotly figure, complete up to the run's trial `last`."""
    task = _task(request, pk, index)
    run = task.run
    times = charts.recent_times(run)
    end = (task.trials, times[-1] if times else run.elapsed_s)
    figure = charts.told(run, charts.task_figure(task, _trials(task), end), task)
    return JsonResponse({"run": run.pk, "task": index, "last": run.trials_done, "end": end, "curve": figure})


@require_GET
def task_decisions(request: HttpRequest, pk: int, index: int) -> HttpResponse:
    """Which decisions matter, for the task's page. `space` selects a design space, from 1, the one with most trials."""
    task = _task(request, pk, index)
    context: dict[str, Any] = {"task": task, "run": task.run}
    try:
        found = decided(task)
    except Missing as missing:
        return render(request, "tasks/_decisions.html", context | {"missing": str(missing)})
    asked = request.GET.get("space", "")
    chosen = int(asked) if re.fullmatch(r"[1-9][0-9]?", asked) and int(asked) <= len(found.spaces) else 1
    return render(request, "tasks/_decisions.html", context | deciding.context(found, chosen))


@require_GET
def task_code(request: HttpRequest, pk: int, index: int, trial: int, kind: str) -> HttpResponse:
    """One of the listings of a record, whole; the page, while it isn't made yet."""
    task = _task(request, pk, index)
    try:
        record = of_trial(task, trial)
    except Missing:
        raise Http404 from None
    state = _code_of(record) if task.run.is_meta_schedule else None
    if not isinstance(state, showing.Generated):
        return redirect(f"{reverse('task_page', args=[pk, index])}?record={trial}&code={kind}#record")
    found = next((one for one in state.listings if one.kind == kind), None)
    if found is None:
        raise Http404
    name = f"{downloads.stem(task.run)}_task-{index}_trial-{trial}.{listing.SUFFIXES[found.kind]}"
    return HttpResponse(
        found.text,
        content_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": content_disposition_header(True, name) or ""},  # noqa: FBT003
    )


def _trials(task: Task) -> list[charts.TaskTrial]:
    """About POINTS trials, including all improvements, by number."""
    columns = charts.TaskTrial._fields
    trials = task.run.trials.filter(task=task, number__lte=task.run.trials_done)
    level = max(0, (-(-task.trials // POINTS) - 1).bit_length()) if task.trials else 0
    rows = chain(trials.thinned(level).values_list(*columns), trials.improvements().values_list(*columns))
    return sorted(map(charts.TaskTrial._make, set(rows)))


def _rows(task: Task) -> list[dict[str, Any]]:
    """The best records; `gap` is how much slower each is than the first."""
    stored = task.records.best_first()
    # The site's own records were checked as they were made, and their texts are long.
    records = list(stored.defer("text") if task.run.is_ours else stored.select_related("task__run"))
    return [{"record": record, "gap": record.latency_s / records[0].latency_s - 1} for record in records]


def _opened(task: Task, record: str, diff: str = "", of: str = "", code: str = "") -> dict[str, Any]:
    """The context of the opened record, and of its comparison: what is known so far, or the error."""
    wanted = [name for name in (record, diff) if name and (name != BEFORE or name == record)]
    found = {}
    for name in wanted:
        try:
            found[name] = _record(task, name)
        except Missing as missing:
            return {"lost": name, "why": str(missing)}
    opened: dict[str, Any] = {"record": found[record], "other": found.get(diff)}
    if not task.run.is_meta_schedule:
        return opened | recorded.opened(task.run.engine, found[record], found.get(diff))
    if code:
        return opened | _generated(found[record], code)
    return opened | _applied(task, found, wanted, diff, of)


def _generated(record: TrialRecord, kind: str) -> dict[str, Any]:
    """What is made of the record, in the form asked for, or else in the one that its target has instead."""
    state = _code_of(record)
    if isinstance(state, showing.Failed):
        return {"failed": record, "error": state.error}
    if isinstance(state, showing.Applying):
        return {"step": state.step}
    by_kind: dict[str, Listing] = {one.kind: one for one in state.listings}
    shown = next((by_kind[name] for name in (kind, *listing.INSTEAD) if name in by_kind), state.listings[0])
    return {
        "listing": shown,
        "listings": [(name, listing.TITLES[name]) for name in by_kind],
        "title": listing.TITLES[shown.kind],
        "about": listing.ABOUT[shown.kind],
        "excerpt": listing.excerpt(shown),
        "hot_words": listing.in_words(shown.hot_loop) if shown.hot_loop else "",
        "without_compiler": len(by_kind) == 1,
        "kernels": state.kernels,
        "missing": state.missing,
    }


def _code_of(record: TrialRecord) -> showing.CodeState:
    try:
        return showing.generate(record)
    except Busy as busy:
        return showing.Failed(str(busy))


def _record(task: Task, name: str) -> TrialRecord:
    """Raises `Missing`."""
    if not re.fullmatch(r"[1-9][0-9]{0,9}", name):
        raise Missing("This isn’t the number of a trial.")
    return of_trial(task, int(name))


def _applied(task: Task, found: dict[str, TrialRecord], wanted: list[str], diff: str, of: str) -> dict[str, Any]:
    """The schedules of these records, as TVM applies them in a process of its own."""
    best, shown = list(task.records.best_first()), []
    for name in wanted:
        try:
            state = showing.show([found[name], *best])
        except Busy as busy:
            state = showing.Failed(str(busy))
        if isinstance(state, showing.Failed):
            return {"failed": found[name], "error": state.error}
        if isinstance(state, showing.Applying):
            return {"step": state.step}
        shown.append(state)
    return {"shown": shown[0]} | (_compared(task, of, *shown) if diff else {})


def _compared(task: Task, of: str, shown: Shown, other: Shown | None = None) -> dict[str, Any]:
    """A record compared with another one, or with the function before any schedule."""
    before, after = other.tensorir if other else task.tensorir, shown.tensorir
    if other and of == "schedule":
        before, after = other.code, shown.code
    pairs = decisions.paired(other.decisions, shown.decisions) if other else []
    compared = {"pairs": pairs, "differ": sum(pair.differs for pair in pairs)}
    try:
        return compared | {"hunks": code.difference(before, after)}
    except code.TooLong as error:
        return compared | {"too_long": str(error)}


def _task(request: HttpRequest, pk: int, index: int) -> Task:
    return find(request, Task.objects.kept().select_related("run__network", "run__created_by"), run=pk, index=index)
