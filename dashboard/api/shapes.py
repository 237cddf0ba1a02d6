"""Answers that have no shape in `tuning`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from django.urls import reverse
from typing_extensions import TypedDict

from dashboard.http.errors import ErrorDict
from dashboard.presentation.snippets import SnippetDict
from tuning.models import AuditEntryDict, CompilationDict, Record, RunDict, RunErrorDict, Task, TaskDict, TrialColumns
from tuning.reads import showing
from tuning.reads.showing import Applying, Failed, Shown

ERRORS: dict[Any, Any] = {(400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 503, 507): ErrorDict}
"""All errors have one shape; for the OpenAPI page."""


class RunPage(TypedDict):
    """`next` is the cursor of the next page, if there is one."""

    items: list[RunDict]
    next: str | None


class AuditPage(TypedDict):
    """Newest first. `next` is the cursor of the next page, if there is one."""

    items: list[AuditEntryDict]
    next: str | None


class TrialPage(TrialColumns):
    """`next` is the cursor of the next page, if there is one."""

    next: str | None


class CompilationList(TypedDict):
    """Newest first."""

    items: list[CompilationDict]


class SnippetList(TypedDict):
    items: list[SnippetDict]


class ErrorList(TypedDict):
    """Most frequent first."""

    items: list[RunErrorDict]


class RecordDict(TypedDict):
    """One of a task's best trials. `text` is the engine's own record, with the trace; `url` returns its schedule."""

    trial: int
    latency_s: float
    gflops: float | None
    url: str
    text: str


class DecisionDict(TypedDict):
    """What a sampling instruction decided: TVM's own `decision` (tile sizes from the outermost loop, or an index) and in words.

    `of` names the loop, annotation or block that it is about, `block` the block of that loop or annotation, `extent` the
    loop's extent; `among` lists the candidates of a categorical choice.
    """

    instruction: str
    of: str
    block: str | None
    extent: int | None
    decision: Any
    choice: str
    among: list[str]


class ScheduleDict(TypedDict):
    """A trace as Python `code`, its decisions, and the scheduled function as TVMScript.

    `packs` says whether blocks of the function pack weights, which is done only once, when the network is compiled.
    """

    code: str
    decisions: list[DecisionDict]
    tensorir: str
    packs: bool


class RecordDetail(RecordDict):
    """A record with its schedule, which is null unless `status` is `made`.

    While the status is `making`, `step` says what is going on. A failure is reported once, in `error`: asking again tries again.
    """

    status: Literal["making", "made", "failed"]
    step: str | None
    error: str | None
    schedule: ScheduleDict | None


class TaskDetail(TaskDict):
    """A task with its unscheduled function as TVMScript, and its best records, fastest first."""

    tensorir: str
    records: list[RecordDict]


def task_detail(task: Task) -> TaskDetail:
    records = [_record(task, record) for record in task.records.all()]
    return {**task.to_dict(), "tensorir": task.tensorir, "records": records}


def record_detail(task: Task, record: Record, state: showing.State) -> RecordDetail:
    return {
        **_record(task, record),
        "status": "making" if isinstance(state, Applying) else "failed" if isinstance(state, Failed) else "made",
        "step": state.step if isinstance(state, Applying) else None,
        "error": state.error if isinstance(state, Failed) else None,
        "schedule": _schedule(state) if isinstance(state, Shown) else None,
    }


def _schedule(shown: Shown) -> ScheduleDict:
    decisions: list[DecisionDict] = msgspec.to_builtins(shown.decisions)
    return {"code": shown.code, "decisions": decisions, "tensorir": shown.tensorir, "packs": shown.packs}


def _record(task: Task, record: Record) -> RecordDict:
    return {
        "trial": record.trial,
        "latency_s": record.latency_s,
        "gflops": record.gflops,
        "url": reverse("api:get_record", args=[task.run_id, task.index, record.trial]),
        "text": record.text,
    }
