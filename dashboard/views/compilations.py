"""Compilations: start, watch, benchmark, cancel."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import CANCEL, CHANGE_COMPILATION, COMPILE, On
from dashboard.http.access import find, person
from dashboard.presentation import charts
from dashboard.presentation import compilations as words
from dashboard.presentation.snippets import snippets
from tuning.actions import compilations
from tuning.models import BenchmarkDict, Compilation, Record, Run
from tuning.reads import artifacts, console
from tuning.validation import Conflict, Invalid

from .acting import act

LISTED = 50
_STEP = {"choose": "build"}
"""The step that a stage is shown as, unless it is called alike."""
may_change = permission_required(CHANGE_COMPILATION, raise_exception=True)


@require_POST
@permission_required(COMPILE, raise_exception=True)
def compile_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Queues a compilation of the run and shows it."""
    run = find(request, Run.objects.select_related("network"), COMPILE, pk=pk)
    given = {option["name"]: request.POST.get(option["name"], "") for option in compilations.compile_options()}
    try:
        made = compilations.compile_run(run, {name: value for name, value in given.items() if value}, person(request))
    except Invalid as invalid:
        messages.error(request, f"Not compiled. {' '.join(invalid.fields.values())}")
    except Conflict as conflict:
        messages.error(request, str(conflict))
    else:
        return redirect("compilation_page", pk=made.pk)
    return redirect("run_page", pk=pk)


@require_GET
def run_untuned(request: HttpRequest, pk: int) -> HttpResponse:
    """For the dialog before a compilation: which tasks have no record, for each choice of records."""
    run = find(request, Run.objects.select_related("network"), pk=pk)
    found = [artifacts.record_coverage(run, source) for source in words.SOURCES]
    shown = [(one, words.SOURCES[one["source"]][0], words.untuned(one)) for one in found if not one["trouble"]]
    return render(request, "compilations/_untuned.html", {"run": run, "found": shown, "batches": _batches(run)})


def _batches(run: Run) -> dict[str, Any] | None:
    """The choice between the run's own batch and any; None if its network is there for one only."""
    found = artifacts.any_batch(run) if run.network and run.network.can_tune else None
    if found is None or found.own is None:
        return None
    return {"own": found.own, "any": words.any_batch(found.runs), "trouble": found.trouble}


@require_GET
def compilation_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One compilation; its script keeps the page up to date."""
    compilation = _compilation(request, pk)
    shown = compilation.to_dict()
    context = {
        "compilation": compilation,
        "run": compilation.run,
        "may": On(request.user, compilation),
        "shown": shown,
        "sentence": words.sentence(compilation),
        "steps": _steps(compilation),
        "goes_on": compilation.status not in Compilation.ENDED,
        "doing": words.DOING,
        "records": words.RECORDS[compilation.source],
        "coverage": words.coverage(shown),
        "choice": words.choice(shown),
        "profile": words.profile(shown),
        "graphs": words.graphs(shown),
        "verdict": words.verdict(shown),
        "accuracy": words.accuracy(shown),
        "estimate": words.estimate(shown),
        "batches": words.batches(shown),
        "own_batch": next((one["batch"] for one in shown["batches"] if one["run"] == compilation.run_id), None),
        "headline": words.headline(shown),
        "nothing_made": not compilation.is_published and compilation.status in Compilation.ENDED,
        "benchmarks": shown["benchmarks"],
        **_latest(shown["benchmarks"]),
        "functions": _functions(compilation),
        **_taken(compilation),
        "console": console.console(compilation),
    }
    return render(request, "compilations/page.html", context)


@require_GET
def compilation_figures(request: HttpRequest, pk: int) -> JsonResponse:
    """The Plotly figure of its benchmarks over time."""
    return JsonResponse({"history": charts.benchmark_figure(_compilation(request, pk).to_dict()["benchmarks"])})


@require_POST
@permission_required(CANCEL, raise_exception=True)
def compilation_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    compilation = _compilation(request, pk, CANCEL)
    return act(request, lambda: compilations.cancel(compilation), "compilation_page", pk=pk)


@require_POST
@may_change
def compilation_benchmark(request: HttpRequest, pk: int) -> HttpResponse:
    """Verifies and benchmarks the library once more."""
    proof = partial(compilations.benchmark, _compilation(request, pk, CHANGE_COMPILATION), person(request))
    return act(request, proof, "compilation_page", pk=pk)


def compilations_of(run: Run) -> dict[str, Any]:
    """The template context of the run page: its compilations, and the choices for another one."""
    made = [(one, one.to_dict()) for one in Compilation.objects.shown().filter(run=run)[:LISTED]]
    measurable = artifacts.choosing_trouble(run) is None
    choices = [
        (value, *about, artifacts.compile_trouble(run, value, wait=False, imported=measurable))
        for value, about in words.SOURCES.items()
    ]
    possible = [value for value, _, _, trouble in choices if trouble is None]
    return {
        "compilations": made,
        "compiling": any(one.can_cancel or one.is_live for one, _ in made),
        "compile_sources": {
            "choices": choices,
            "chosen": possible[0] if possible else None,
            "blocked": None if possible else choices[0][3],
            "inside": words.CHOICES,
            "alone_only": artifacts.choosing_trouble(run),
            "graphs": words.GRAPHS if artifacts.has_cuda_graphs(run) else {},
        },
    }


def _steps(compilation: Compilation) -> list[dict[str, str]]:
    """The steps of the compilation, with their states."""
    done = {"build": compilation.is_published, "prove": compilation.verified is not None}
    return [{"title": title, **_state(compilation, stage, done=done[stage])} for stage, title in words.STEPS]


def _state(compilation: Compilation, stage: str, *, done: bool) -> dict[str, str]:
    if _STEP.get(compilation.stage, compilation.stage) == stage and compilation.status != Compilation.Status.FINISHED:
        return {"status": compilation.status, "state": compilation.status}
    if stage == "prove" and compilation.verified is False:
        return {"status": "failed", "state": "outputs differ"}
    return {"status": "finished", "state": "finished"} if done else {"status": "", "state": "to come"}


def _latest(benchmarks: list[BenchmarkDict]) -> dict[str, Any]:
    """What the page says of the latest benchmark."""
    if not benchmarks:
        return {}
    latest = benchmarks[0]
    return {
        "sides": _sides(latest),
        "extent": words.extent(latest["tuned"]),
        "onnxruntime": words.onnxruntime(latest),
        "restless": words.restless(latest),
        "rounds": words.rounds(latest),
    }


def _sides(benchmark: BenchmarkDict) -> list[dict[str, Any]]:
    """The rows of the benchmark's table; `factor` is the time relative to the tuned library's."""
    tuned_s = benchmark["tuned"]["median_s"] if benchmark["tuned"] else None
    rows = ((key, title, benchmark[key]) for key, title in words.SIDES.items())  # type: ignore[literal-required]
    return [
        {
            "key": key,
            "title": title,
            "latency": latency,
            "factor": latency["median_s"] / tuned_s if latency and tuned_s else None,
        }
        for key, title, latency in rows
        if latency or key != "float_model"
    ]


def _functions(compilation: Compilation) -> list[dict[str, Any]]:
    """All functions, those without a record first. `task` is the task of the record if that is still kept."""
    kept = Record.objects.filter(
        task__run__in={one["run"] for one in compilation.used}, trial__in={one["trial"] for one in compilation.used}
    ).values_list("task__run", "trial", "task__index")
    task_of = {(run, trial): index for run, trial, index in kept}
    inside, parts = _inside(compilation), _parts(compilation)
    untuned = [{"function": name} | parts.get(name, {}) for name in compilation.untuned]
    used = [
        one
        | {"task": task_of.get((one["run"], one["trial"]))}
        | inside.get(one["function"], {})
        | parts.get(one["function"], {})
        for one in compilation.used
    ]
    return sorted(untuned, key=_weight, reverse=True) + sorted(used, key=_weight, reverse=True)


def _weight(one: dict[str, Any]) -> float:
    """The function's part of an inference in seconds, as far as that is known."""
    return float(one.get("share_s") or one.get("calls", 1) * one.get("latency_s", 0.0))


def _parts(compilation: Compilation) -> dict[str, dict[str, Any]]:
    """By function, what the latest benchmark's profile says; `share` is that of all functions."""
    latest = compilation.latest
    parts = latest.profile["functions"] if latest and latest.profile else []
    whole_s = sum(one["calls"] * one["inside_s"] for one in parts)
    return {
        one["function"]: {
            **one,
            "share_s": one["calls"] * one["inside_s"],
            "share": one["calls"] * one["inside_s"] / whole_s if whole_s else None,
        }
        for one in parts
    }


def _inside(compilation: Compilation) -> dict[str, dict[str, Any]]:
    """By function, how it was chosen: `inside_s` is that of the record in the library, `instead_of` the best one alone if that is another."""
    chosen = compilation.chosen or {"functions": [], "kept": False}
    return {
        each["function"]: {
            "calls": each["calls"],
            "tried": each["tried"],
            "inside_s": each["tried"][each["chosen"] if chosen["kept"] else 0]["inside_s"],
            "instead_of": each["tried"][0] if chosen["kept"] and each["chosen"] else None,
        }
        for each in chosen["functions"]
    }


def _taken(compilation: Compilation) -> dict[str, Any]:
    """Programs that use the library, or a message that its files are gone."""
    if not compilation.is_published:
        return {}
    try:
        return {"snippets": snippets(compilation)}
    except Conflict as gone:
        return {"gone": str(gone)}


def _compilation(request: HttpRequest, pk: int, permission: str = "") -> Compilation:
    return find(request, Compilation.objects.shown(), permission, pk=pk)
