"""Runs and their measurements."""

from __future__ import annotations

from django.db.models import Prefetch
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from dashboard.accounts import CHANGE, DELETE, STOP
from dashboard.http.access import find, person
from dashboard.http.conditional import columns
from dashboard.http.paging import long_page, page
from tuning.actions import curation, editing, runs
from tuning.actions.curation import Action
from tuning.models import Run, RunDict, Task, TrialRow
from tuning.reads import console, exploring, showing
from tuning.reads.console import ConsoleDict
from tuning.reads.course import conditions, rankings, rounds
from tuning.reads.course.conditions import ConditionsDict
from tuning.reads.curves import CurvesDict, curves
from tuning.reads.gaining import VerdictDict, verdict
from tuning.reads.records import Missing, NotOfTask, TrialRecord, of_trial
from tuning.reads.run_list import read_rounds
from tuning.reads.scatter import ScatterDict, scatter
from tuning.validation import Conflict, Invalid, unknown

from . import bodies, queries, shapes
from .auth import needs
from .shapes import ERRORS

router = Router(tags=["runs"])


@router.get("runs", response={200: shapes.RunPage, **ERRORS})
def list_runs(request: HttpRequest, query: Query[queries.RunQuery]) -> shapes.RunPage:
    """Runs without their tasks, by default newest first."""
    # Only the columns of tasks that alerts need.
    tasks = Task.objects.only("run_id", "index", "name", "chosen", "trials", "failed", "weight")
    whole = Run.everything.listed().prefetch_related(Prefetch("tasks", tasks))
    runs, following = long_page(query.filter().runs(person(request)), whole, query.order, query.cursor, query.limit)
    places = Run.objects.places() if any(run.status == Run.Status.QUEUED for run in runs) else {}
    read_rounds(runs)
    return {"items": [run.to_listed_dict(tasks=run.tasks.all(), places=places) for run in runs], "next": following}


@router.post(
    "runs/actions",
    response={200: curation.OutcomeDict, **ERRORS},
    auth=needs(CHANGE),
    openapi_extra=bodies.ACTION,
)
def act_on_runs(request: HttpRequest) -> curation.OutcomeDict:
    """Change many runs at once. `done` lists the runs that were changed, `refused` says why the others weren't."""
    body = bodies.json_object(request)
    if wrong := unknown(body, Action.__struct_fields__):
        raise Invalid(wrong)
    return curation.act(person(request), body.get("action"), body.get("runs"), body.get("tags", []))


@router.get("runs/{number:run_id}", response={200: RunDict, **ERRORS})
def get_run(request: HttpRequest, run_id: int) -> RunDict:
    """The run with its tasks."""
    return _run(request, run_id).to_full_dict()


@router.patch("runs/{number:run_id}", response={200: RunDict, **ERRORS}, auth=needs(CHANGE), openapi_extra=bodies.EDIT)
def edit_run(request: HttpRequest, run_id: int) -> RunDict:
    """Change the run's name, notes or both; `revision` says which one was edited.

    409 if somebody else has edited them since: nothing is changed then, and `current` has their current state.
    """
    return editing.edit(_run(request, run_id, CHANGE), bodies.json_object(request), person(request)).to_full_dict()


@router.delete("runs/{number:run_id}", response={204: None, **ERRORS}, auth=needs(DELETE))
def delete_run(request: HttpRequest, run_id: int) -> Status[None]:
    """Delete a run that has ended. It is hidden everywhere, and can be restored for some days."""
    curation.delete(_run(request, run_id, DELETE))
    return Status(204, None)


@router.post("runs/{number:run_id}/restore", response={200: RunDict, **ERRORS}, auth=needs(DELETE))
def restore_run(request: HttpRequest, run_id: int) -> RunDict:
    """Undo the deletion of a run, as long as `show=deleted` lists it."""
    curation.restore(find(request, Run.everything.all(), DELETE, pk=run_id))
    return _run(request, run_id).to_full_dict()


@router.patch(
    "runs/{number:run_id}/marks",
    response={200: RunDict, **ERRORS},
    auth=needs(CHANGE),
    openapi_extra=bodies.MARKS,
)
def mark_run(request: HttpRequest, run_id: int) -> RunDict:
    """Pin, unpin, archive or unarchive a run; add and remove tags."""
    curation.mark(_run(request, run_id, CHANGE), bodies.json_object(request))
    return _run(request, run_id).to_full_dict()


@router.post("runs/{number:run_id}/stop", response={200: RunDict, **ERRORS}, auth=needs(STOP))
def stop_run(request: HttpRequest, run_id: int) -> RunDict:
    """Stop a queued run at once, or a running one after the current trial."""
    return runs.stop(_run(request, run_id, STOP)).to_full_dict()


@router.post("runs/{number:run_id}/resume", response={200: RunDict, **ERRORS}, auth=needs(CHANGE))
def resume_run(request: HttpRequest, run_id: int) -> RunDict:
    """Queue a run that ended early again, to spend the rest of its budget."""
    return runs.resume(_run(request, run_id, CHANGE)).to_full_dict()


@router.post(
    "runs/{number:run_id}/priority",
    response={200: RunDict, **ERRORS},
    auth=needs(CHANGE),
    openapi_extra=bodies.PRIORITY,
)
def prioritize_run(request: HttpRequest, run_id: int) -> RunDict:
    """Give a queued run another priority. Only the project's admins may choose `high`."""
    given = bodies.fields(request, "priority").get("priority")
    return runs.prioritize(_run(request, run_id, CHANGE), given, person(request)).to_full_dict()


@router.post(
    "runs/{number:run_id}/extend",
    response={200: RunDict, **ERRORS},
    auth=needs(CHANGE),
    openapi_extra=bodies.EXTENSION,
)
def extend_run(request: HttpRequest, run_id: int) -> RunDict:
    """Give a run more trials, or more time if it has a limit. A run that has ended is queued again."""
    return runs.extend(_run(request, run_id, CHANGE), bodies.json_object(request)).to_full_dict()


@router.get("runs/{number:run_id}/trials", response={200: shapes.TrialPage, **ERRORS})
def list_trials(request: HttpRequest, run_id: int, query: Query[queries.TrialQuery]) -> shapes.TrialPage:
    """Trials as columns. To follow a run, ask again with `after` set to the answer's `last`."""
    run = _run(request, run_id)
    wanted = query.filter()
    found = exploring.trials(run, wanted).values_list(*TrialRow._fields, named=True)
    rows, following = page(found, wanted.column, query.cursor, query.limit, key="number")
    return {**exploring.columns(run, rows, query.after), "next": following}


@router.get("runs/{number:run_id}/curves", response={200: CurvesDict, **ERRORS})
def get_curves(request: HttpRequest, run_id: int, query: Query[queries.CurveQuery]) -> HttpResponseBase:
    """The data of the charts: best-so-far (exact), scatter and allocation (thinned) of each task, and the estimate.

    Send the answer's `ETag` as `If-None-Match` to get 304 if nothing has changed.
    """
    run = _run(request, run_id)
    return columns(request, run, f"curves {query.points}", lambda: curves(run, query.points))


@router.get("runs/{number:run_id}/verdict", response={200: VerdictDict, **ERRORS})
def get_verdict(request: HttpRequest, run_id: int) -> VerdictDict:
    """What is left to gain, task by task and in all: what more trials are expected to bring, and what others have reached as far as you see their runs."""
    return verdict(_run(request, run_id), person(request)).to_dict()


@router.get("runs/{number:run_id}/scatter", response={200: ScatterDict, **ERRORS})
def get_scatter(request: HttpRequest, run_id: int, query: Query[queries.ScatterQuery]) -> HttpResponseBase:
    """Trials in a window of numbers and latencies, thinned to `points`; the best and some failed ones are always included."""
    run, window = _run(request, run_id), query.window()
    return columns(request, run, f"scatter {window} {query.points}", lambda: scatter(run, window, query.points))


@router.get("runs/{number:run_id}/rounds", response={200: shapes.RoundPage, **ERRORS})
def list_rounds(request: HttpRequest, run_id: int, query: Query[queries.CourseQuery]) -> shapes.RoundPage:
    """The run's rounds, oldest first: where the time of each went, in seconds."""
    items = rounds.rounds(_run(request, run_id), query.after, query.limit)
    return {"items": items, "next": items[-1]["id"] if len(items) == query.limit else None}


@router.get("runs/{number:run_id}/rankings", response={200: shapes.RankingPage, **ERRORS})
def list_rankings(request: HttpRequest, run_id: int, query: Query[queries.RankingQuery]) -> shapes.RankingPage:
    """Batches that the cost model judged before it learned from them, oldest first."""
    items = rankings.rankings(_run(request, run_id), query.task, query.after, query.limit)
    return {"items": items, "next": items[-1]["id"] if len(items) == query.limit else None}


@router.get("runs/{number:run_id}/conditions", response={200: ConditionsDict, **ERRORS})
def get_conditions(request: HttpRequest, run_id: int) -> ConditionsDict:
    """What the machine was like while the run measured on it."""
    return conditions.conditions(_run(request, run_id))


@router.get("runs/{number:run_id}/errors", response={200: shapes.ErrorList, **ERRORS})
def list_errors(request: HttpRequest, run_id: int) -> shapes.ErrorList:
    """The distinct errors of the run's trials, with counts."""
    return {"items": [error.to_dict() for error in _run(request, run_id).errors.all()]}


@router.get("runs/{number:run_id}/tasks/{number:index}", response={200: shapes.TaskDetail, **ERRORS})
def get_task(request: HttpRequest, run_id: int, index: int) -> shapes.TaskDetail:
    """A task with its unscheduled TensorIR and its best records."""
    return shapes.task_detail(get_object_or_404(_run(request, run_id).tasks, index=index))


@router.get(
    "runs/{number:run_id}/tasks/{number:index}/records/{number:trial}",
    response={(200, 202): shapes.RecordDetail, **ERRORS},
    url_name="get_record",
)
def get_record(request: HttpRequest, run_id: int, index: int, trial: int) -> Status[shapes.RecordDetail]:
    """The record of any trial of the task with its schedule: as code, with its decisions and the resulting TensorIR; or its steps or knobs.

    202 while a process applies the record: ask again after a second. 409 says why the trial has no record.
    """
    task = get_object_or_404(_run(request, run_id).tasks, index=index)
    record = _record(task, trial)
    if not task.run.is_meta_schedule:
        return Status(200, shapes.told_detail(task, record))
    detail = shapes.record_detail(task, record, showing.show([record, *task.records.best_first()]))
    return Status(202 if detail["status"] == "making" else 200, detail)


@router.get(
    "runs/{number:run_id}/tasks/{number:index}/records/{number:trial}/code",
    response={(200, 202): shapes.CodeDetail, **ERRORS},
)
def get_code(request: HttpRequest, run_id: int, index: int, trial: int) -> Status[shapes.CodeDetail]:
    """What is made of a record's schedule: lowered TIR, LLVM IR and assembly with its hot loop, or CUDA C++.

    202 while a process builds it: ask again after a second. 409 for a trial without a record, and for engines other than MetaSchedule.
    """
    task = get_object_or_404(_run(request, run_id).tasks, index=index)
    record = _record(task, trial)
    if not task.run.is_meta_schedule:
        raise Conflict("Only the records of MetaSchedule tell which function they schedule.")
    detail = shapes.code_detail(trial, showing.generate(record))
    return Status(202 if detail["status"] == "making" else 200, detail)


@router.get("runs/{number:run_id}/console", response={200: ConsoleDict, **ERRORS})
def get_console(request: HttpRequest, run_id: int, query: Query[queries.ConsoleQuery]) -> ConsoleDict:
    """What the engine printed: the end, or the part after a byte offset. Ask again with `after` set to `end`."""
    return console.console(_run(request, run_id), after=query.after)


def _record(task: Task, trial: int) -> TrialRecord:
    """Raises `Http404`, or `Conflict` that says why there is no record."""
    try:
        return of_trial(task, trial)
    except NotOfTask as missing:
        raise Http404(str(missing)) from None
    except Missing as missing:
        raise Conflict(str(missing)) from None


def _run(request: HttpRequest, run_id: int, permission: str = "") -> Run:
    return find(
        request,
        Run.objects.select_related("network", "project", "created_by", "machine", "chosen_machine"),
        permission,
        pk=run_id,
    )
