"""Runs side by side. The URL holds the page's whole state."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.accounts import CHANGE
from dashboard.http.access import may, person
from dashboard.presentation.comparing import figures, labels
from dashboard.presentation.comparing import side_by_side as words
from dashboard.presentation.comparing.concluding import conclusions
from dashboard.presentation.comparing.parts import settled
from dashboard.presentation.comparing.view import View
from dashboard.presentation.units import count
from tuning.models import Run
from tuning.reads.comparing import (
    FEWEST,
    ComparedRunDict,
    ComparedTaskDict,
    ComparisonDict,
    DifferentOptionDict,
    baseline_of,
    compare,
    runs_of,
    side_by_side,
    usable,
)
from tuning.validation import Invalid, natural
from tuning.wording import target_label

CHOICES = (
    ("x", "Horizontal axis", (("trials", "Trials"), ("time", "Time"))),
    ("scale", "Scale of the estimate", (("log", "Log"), ("linear", "Linear"))),
    ("values", "Values", (("absolute", "Absolute"), ("relative", "Relative"))),
)
SETTINGS_SHOWN = 3
"""How many differing settings are listed below a run's name."""
NOT_LISTED = ("network", "target", "options.seed")
"""Settings that the page shows elsewhere; the seed explains nothing."""
SORTS = (("total", "Largest total"), ("difference", "Largest difference"))
PER = (("network", "× weight"), ("execution", "One execution"))


@require_GET
def compare_page(request: HttpRequest) -> HttpResponse:
    """Compares the URL's `runs` with its `baseline`; `x`, `scale`, `values`, `sort`, `per` and `other` choose the view."""
    named = request.GET.getlist("runs")
    text = ",".join(named)
    if len(named) > 1:
        # The list's form sends one parameter per run; shared addresses have a single one.
        query = request.GET.copy()
        query["runs"] = text
        return redirect(f"{request.path}?{query.urlencode(safe=',')}")
    try:
        runs = runs_of(person(request), text)
        baseline = baseline_of(runs, _baseline(request.GET.get("baseline", "")))
    except Invalid as invalid:
        return _refused(request, text, invalid)
    comparison = compare(runs, baseline)
    view = View.of(tuple(run.pk for run in runs), baseline.pk, request.GET.dict())
    return render(request, "compare/page.html", {**_context(comparison, view), **_beside(request, runs, comparison)})


def _beside(request: HttpRequest, runs: list[Run], comparison: ComparisonDict) -> dict[str, Any]:
    """What was, is, or can be measured side by side."""
    newest = side_by_side.latest(runs).newest
    found = comparison["side_by_side"]
    return {
        "measuring": newest if newest and not newest.has_ended else None,
        "doing": words.doing(newest) if newest else "",
        "failed": newest if newest and newest.status == newest.Status.FAILED else None,
        "how": words.how(found) if found else "",
        "remarks": words.remarks(found) if found else [],
        "trouble": side_by_side.trouble(runs),
        "may_measure": may(person(request), CHANGE, *runs),
    }


def _baseline(text: str) -> int | None:
    """Raises `Invalid` for `baseline`."""
    if not text:
        return None
    if (key := natural(text)) is None:
        raise Invalid({"baseline": f"“{text[:40]}” isn't the number of a run."})
    return key


def _refused(request: HttpRequest, text: str, invalid: Invalid) -> HttpResponse:
    """What is wrong, and a link to those of the runs that can be compared."""
    rest = usable(person(request), text)
    context = {
        "wrong": " ".join(invalid.fields.values()),
        "rest": rest,
        "url": View(tuple(rest)).url() if len(rest) >= FEWEST else None,
    }
    return render(request, "compare/refused.html", context, status=400)


def _context(comparison: ComparisonDict, view: View) -> dict[str, Any]:
    tasks = labels.ordered(comparison, view)
    options = [(option["name"], _option_texts(option)) for option in comparison["options"]]
    base = labels.baseline_of(comparison)
    outdated = comparison["side_by_side"]["outdated"] if comparison["side_by_side"] else []
    return {
        "comparison": comparison,
        "view": view,
        "runs": [
            {**_run(run, base, place, view, outdated), "settings": _distinctive(options, place)}
            for place, run in enumerate(comparison["runs"])
        ],
        "tasks": [_row(comparison, view, task) for task in tasks],
        "options": options,
        "most_bars": figures.BARS,
        "choices": [_choice(view, *choice) for choice in CHOICES],
        "sorts": _links(view, "sort", SORTS),
        "per": _links(view, "per", PER),
        "against": _links(view, "other", [(key, f"#{key}") for key in view.others]) if len(view.runs) > FEWEST else [],
        "conclusions": conclusions(comparison),
        "figures": figures.figures(comparison, view),
        "estimate_note": figures.note(comparison),
        "settled": settled(comparison, view.against),
        **_merged(comparison, view),
    }


def _merged(comparison: ComparisonDict, view: View) -> dict[str, Any]:
    """Where the runs' records are in one file, unless they are of different engines."""
    engines = {run["run"]["engine"] for run in comparison["runs"]}
    if len(engines) > 1:
        return {"merged": None}
    url = f"{reverse('api:get_merged_records')}?runs={','.join(map(str, view.runs))}"
    return {"merged": url, "engine": engines.pop()}


def _run(
    run: ComparedRunDict, base: ComparedRunDict, place: int, view: View, outdated: Collection[int]
) -> dict[str, Any]:
    key = run["run"]["id"]
    others = tuple(one for one in view.runs if one != key)
    common_s, base_s = run["common_s"], base["common_s"]
    return {
        **run,
        "common_ratio": common_s / base_s if common_s is not None and base_s else None,
        "place": place,
        "outdated": key in outdated,
        "title": labels.title(run),
        "is_baseline": key == view.baseline,
        "as_baseline": view.url(baseline=key),
        "without": view.url(runs=others) if len(others) >= FEWEST else None,
    }


def _distinctive(options: list[tuple[str, list[str]]], place: int) -> list[str]:
    """The settings that tell apart runs with the same name."""
    elsewhere = ("network_options.", "versions.")
    listed = [(name, values[place]) for name, values in options if name not in NOT_LISTED]
    settings = [(name, value) for name, value in listed if not name.startswith(elsewhere)]
    return [f"{name.removeprefix('options.')} {value}" for name, value in settings[:SETTINGS_SHOWN]]


def _option_texts(option: DifferentOptionDict) -> list[str]:
    values = zip(option["values"], option["recorded"], strict=True)
    return [_option_text(option["name"], value) if recorded else "not recorded" for value, recorded in values]


def _option_text(name: str, value: Any) -> str:
    if name == "target":
        return target_label(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _row(
    comparison: ComparisonDict, view: View, task: ComparedTaskDict
) -> tuple[str, ComparedTaskDict, str, list[Any]]:
    """The task's number, the task, its weights, and for each run its cell and whether it has another number there."""
    number, told = labels.number(comparison, task)
    pairs = zip(view.runs, task["cells"], strict=True)
    cells = [(run, cell, cell is not None and cell["task"] != number) for run, cell in pairs]
    return told, task, _weights(task["cells"]), cells


def _weights(cells: Any) -> str:
    return " / ".join(dict.fromkeys(count(cell["weight"]) for cell in cells if cell))


def _choice(view: View, name: str, label: str, options: Any) -> dict[str, Any]:
    return {"name": name, "label": label, "options": _links(view, name, options)}


def _links(view: View, name: str, options: Any) -> list[dict[str, Any]]:
    """`{% querystring %}` doesn't fit: the runs are one parameter, and defaults are left out of the URL."""
    return [
        {
            "id": f"{name}-{value}",
            "words": words,
            "url": view.url(**{name: value}),
            "current": value == (view.against if name == "other" else getattr(view, name)),
        }
        for value, words in options
    ]
