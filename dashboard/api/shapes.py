"""What goes in and out, where `tuning` has no shape of its own for it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from django.http import HttpRequest
from django.urls import reverse
from ninja import Field, Schema
from ninja.errors import HttpError
from pydantic import ValidationInfo, model_validator
from typing_extensions import TypedDict

from dashboard.http.errors import ErrorDict
from dashboard.presentation.snippets import SnippetDict
from tuning.actions import compilations, orders
from tuning.actions.curation import ACTIONS, MARKS, MOST_RUNS, MOST_TAGS, TAGGING
from tuning.actions.editing import NOTES_BYTES
from tuning.actions.orders import NAME_LENGTH
from tuning.models import KEEP_BEST, MAX_NUMBER, CompilationDict, Record, RunDict, Task, TaskDict, TrialColumns
from tuning.models import ErrorDict as RunErrorDict
from tuning.reads import network_list, showing
from tuning.reads.downloads import RecordsFormat, Which
from tuning.reads.exploring import Order as TrialOrder
from tuning.reads.exploring import Wanted as WantedTrials
from tuning.reads.library import Order as LibraryOrder
from tuning.reads.library import Wanted
from tuning.reads.run_list import Order as RunOrder
from tuning.reads.run_list import Show
from tuning.reads.run_list import Wanted as WantedRuns
from tuning.reads.scatter import POINTS, Window
from tuning.reads.showing import Failed, Making, Shown
from tuning.validation import Invalid, OptionDict, unknown

ERRORS: dict[Any, Any] = {(400, 401, 403, 404, 405, 409, 413, 415, 422, 500, 503): ErrorDict}
"""The one shape of all errors, for the OpenAPI page."""
NO_NUL = r"^[^\x00]*$"
"""PostgreSQL has no such character."""
Status = Literal["queued", "running", "stopping", "finished", "stopped", "failed", "interrupted"]


class Query(Schema):
    """Query parameters, of which a misspelt one is an error rather than ignored."""

    @model_validator(mode="after")
    def refuse_unknown(self, info: ValidationInfo) -> Query:
        """Raises `Invalid` naming each parameter that there isn't."""
        known = [field.alias or name for name, field in type(self).model_fields.items()]
        request: HttpRequest = (info.context or {})["request"]
        if strange := unknown(request.GET, known, "parameter"):
            raise Invalid(strange)
        return self


class RunQuery(Query):
    """Which runs."""

    status: list[Status] = Field([], description="Any of these; give the parameter once for each.")
    engine: str | None = Field(None, max_length=30, pattern=NO_NUL)
    q: str = Field(
        "", max_length=200, pattern=NO_NUL, description="Words in the name of the run or its network, or its notes."
    )
    network: str = Field("", max_length=100, pattern=NO_NUL, description="Only runs of this network, by its name.")
    target: str = Field("", max_length=64, pattern=NO_NUL, description="Only this target, by its `target_fingerprint`.")
    tag: list[str] = Field(
        [], max_length=MOST_TAGS, description="Runs that have all of these; give the parameter once for each."
    )
    since: str = Field("", max_length=40, description="The first day of the launch in UTC, as `2026-11-21`.")
    until: str = Field("", max_length=40, description="The last day of it.")
    pinned: bool | None = Field(None, description="Only pinned runs, or only others.")
    show: Show = Field(
        "current", description="`current`: all but archived ones; `archived`: these; `deleted`: what can be restored."
    )
    order: RunOrder = Field("-created_at", description="Runs without an estimate come last by it, either way.")
    cursor: str | None = Field(
        None, max_length=1000, description="`next` of the page before, with the same filters and order."
    )
    limit: int = Field(50, ge=1, le=200)

    def wanted(self) -> WantedRuns:
        """As `tuning.reads.run_list` takes it."""
        given = self.model_dump(exclude={"limit", "cursor"})
        return WantedRuns(**{**given, "status": tuple(self.status), "tag": tuple(self.tag)})


class TrialQuery(Query):
    """Which trials."""

    after: int = Field(0, ge=0, le=MAX_NUMBER, description="Only trials with a higher number.")
    limit: int = Field(1000, ge=1, le=10_000)
    task: int | None = Field(None, ge=0, le=MAX_NUMBER, description="The task's index.")
    failed: bool | None = Field(None, description="Only failed trials, or only measured ones.")
    improved: bool | None = Field(
        None, description="Only those that were their task's best when measured, or only others."
    )
    min: float | None = Field(None, ge=0, allow_inf_nan=False, description="Least latency in seconds.")
    max: float | None = Field(None, ge=0, allow_inf_nan=False, description="Most latency in seconds.")
    order: TrialOrder = Field(
        "number", description="By `latency_s`, failed trials are left out; by `task`, those of each task are by number."
    )
    cursor: str | None = Field(
        None, max_length=1000, description="`next` of the page before, with the same filters and order."
    )

    def wanted(self) -> WantedTrials:
        """As `tuning.reads.exploring` takes it."""
        return WantedTrials(**self.model_dump(exclude={"limit", "cursor"}))


class CurveQuery(Query):
    """How fine."""

    points: int = Field(
        2000,
        ge=10,
        le=20_000,
        description="Trials in the scatter: so many when the run has them. Best-so-far is always exact.",
    )


class ScatterQuery(Query):
    """Which window of the scatter, and how fine."""

    first: int = Field(1, alias="from", ge=1, le=MAX_NUMBER, description="The first trial's number.")
    last: int | None = Field(
        None, alias="to", ge=1, le=MAX_NUMBER, description="The last trial's; else the run's last."
    )
    min: float | None = Field(None, ge=0, allow_inf_nan=False, description="Least latency in seconds.")
    max: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Most latency in seconds. Failed trials are there in any range."
    )
    task: list[int] = Field([], description="Only these tasks, by index; give the parameter once for each.")
    points: int = Field(POINTS, ge=100, le=20_000, description="Trials in the answer, at most.")

    def window(self) -> Window:
        """As `tuning.reads.scatter` takes it."""
        return Window(self.first, self.last, self.min, self.max, tuple(self.task))


class CompareQuery(Query):
    """Which runs."""

    runs: str = Field("", max_length=1000, description="Two to eight runs by their numbers: `1,2,3`.")
    baseline: int | None = Field(None, description="The run that the others are compared with; else the first.")


class LibraryQuery(Query):
    """Which workloads."""

    q: str = Field("", max_length=200, pattern=NO_NUL, description="Words in the name of a task or network, or a hash.")
    network: str = Field("", max_length=100, pattern=NO_NUL, description="Only workloads that this network has.")
    target: str = Field("", max_length=64, pattern=NO_NUL, description="Only this target, by its `target_fingerprint`.")
    order: LibraryOrder = Field("name", description="`run`: by the run that holds the best.")
    offset: int = Field(0, ge=0, le=MAX_NUMBER)
    limit: int = Field(50, ge=1, le=200)

    def wanted(self) -> Wanted:
        """As the library takes it."""
        return Wanted(self.q, self.network, self.target, self.order)


class ConsoleQuery(Query):
    """From where."""

    after: int | None = Field(None, ge=0, le=2**63 - 1, description="Byte offset; without it, the end of the log.")


class TaskQuery(Query):
    """Of which task."""

    task: int | None = Field(None, ge=0, le=MAX_NUMBER, description="The task's index; without it, all tasks.")


class RecordQuery(TaskQuery):
    """Which records, and how."""

    format: RecordsFormat = Field("native", description="`native`: a zip of MetaSchedule's two files.")
    which: Which = Field("best", description="The best of each task, or those of all trials.")
    k: int | None = Field(None, ge=1, le=KEEP_BEST, description=f"Best records of each task; else {KEEP_BEST}.")


class RunPage(TypedDict):
    """Some runs, and the cursor of those that follow, if any do."""

    items: list[RunDict]
    next: str | None


class TrialPage(TrialColumns):
    """Some trials, and the cursor of those that follow, if any do."""

    next: str | None


class CompilationList(TypedDict):
    """The compilations of a run, newest first."""

    items: list[CompilationDict]


class SnippetList(TypedDict):
    """How to use a library."""

    items: list[SnippetDict]


class ErrorList(TypedDict):
    """The distinct errors of a run, the most frequent first."""

    items: list[RunErrorDict]


class RecordDict(TypedDict):
    """One of a task's best trials: its number, its latency in seconds, and the engine's own record (with the trace).

    `url` tells what its schedule does.
    """

    trial: int
    latency_s: float
    gflops: float | None
    url: str
    text: str


class DecisionDict(TypedDict):
    """What a sampling instruction chose: TVM's own `decision` (factors from the outermost loop, or a position), and in words.

    `of` is the loop (with its `block` and `extent`), annotation (of its `block`) or block that it is about; `among` is what a
    categorical choice had to choose from.
    """

    instruction: str
    of: str
    block: str | None
    extent: int | None
    decision: Any
    choice: str
    among: list[str]


class ScheduleDict(TypedDict):
    """A trace as Python `code`, its decisions, and as TVMScript the function that it was applied to.

    `packs` says that blocks of the function pack weights, which is done once, when the network is compiled.
    """

    code: str
    decisions: list[DecisionDict]
    tensorir: str
    packs: bool


class RecordDetail(RecordDict):
    """A record with its schedule, which is null until `status` is `made`.

    While it is `making`, `step` says what goes on; when it `failed`, `error` says why, once: to ask again is to try again.
    """

    status: Literal["making", "made", "failed"]
    step: str | None
    error: str | None
    schedule: ScheduleDict | None


class TaskDetail(TaskDict):
    """A task with its function before any schedule, as TVMScript, and its best records, fastest first."""

    tensorir: str
    records: list[RecordDict]


def task_detail(task: Task) -> TaskDetail:
    """The task in full."""
    records = [_record(task, record) for record in task.records.all()]
    return {**task.to_dict(), "tensorir": task.tensorir, "records": records}


def record_detail(task: Task, record: Record, state: showing.State) -> RecordDetail:
    """The record with as much of its schedule as is known."""
    return {
        **_record(task, record),
        "status": "making" if isinstance(state, Making) else "failed" if isinstance(state, Failed) else "made",
        "step": state.step if isinstance(state, Making) else None,
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


def json_object(request: HttpRequest) -> dict[str, Any]:
    """The body. Raises `HttpError` 415 or 400 when it isn't a JSON object."""
    if request.content_type != "application/json":
        raise HttpError(415, "Send JSON, with the header Content-Type: application/json.")
    try:
        return msgspec.json.decode(request.body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, f"The body must be a JSON object: {error}") from error


def launch_schema() -> dict[str, Any]:
    """The launch body for the OpenAPI page. `services.launch` itself checks it, as it does the form."""
    options = [*orders.budget_options(), *orders.tuning_options()]
    properties: dict[str, Any] = {
        "network": {
            "type": "string",
            "description": "A built-in network or an uploaded one, by its name; see GET /api/v1/networks.",
            "examples": [network["name"] for network in network_list.builtin_networks()],
        },
        "network_options": {"type": "object", "description": "The network's own options; see GET /api/v1/networks."},
        "target": {
            "anyOf": [{"type": "string"}, {"type": "object"}],
            "default": "this",
            "description": "`this` machine's CPU, a tag of TVM (`nvidia/nvidia-a100`), or a target as an object.",
        },
        "device": {
            "type": "string",
            "default": "this machine",
            "description": "Where to measure: `this machine`, or `rpc:TRACKER/KEY` for the devices of a key at an "
            "allowed TVM RPC tracker (see GET /api/v1/devices).",
        },
        "name": {"type": "string", "description": "Without it, the network's name and options."},
    } | {option["name"]: _json_schema(option) for option in options}
    schema = {
        "type": "object",
        "required": ["network"],
        "properties": properties,
        "additionalProperties": False,
        "example": {"network": "mlp", "target": "this", "trials": 64, "trials_per_batch": 16, "seed": 1},
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def extraction_schema() -> dict[str, Any]:
    """The body that asks for an extraction; `services.extract_tasks` itself checks it."""
    launch = launch_schema()["requestBody"]["content"]["application/json"]["schema"]["properties"]
    schema = {
        "type": "object",
        "required": ["network"],
        "properties": {name: launch[name] for name in ("network", "network_options", "target")},
        "additionalProperties": False,
        "example": {"network": "resnet-18", "network_options": {"batch": 4}, "target": "this"},
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def compile_schema() -> dict[str, Any]:
    """The body of a compilation for the OpenAPI page."""
    properties = {option["name"]: _json_schema(option) for option in compilations.compile_options()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False, "example": {"source": "run"}}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def edit_schema() -> dict[str, Any]:
    """The body of an edit for the OpenAPI page. `editing.edit` itself checks it."""
    properties: dict[str, Any] = {
        "revision": {"type": "integer", "description": "Of the run as it was when it was edited."},
        "name": {"type": "string", "maxLength": NAME_LENGTH, "description": "One line."},
        "notes": {"type": "string", "description": f"Markdown, at most {NOTES_BYTES:,} bytes of UTF-8."},
    }
    schema = {
        "type": "object",
        "required": ["revision"],
        "properties": properties,
        "additionalProperties": False,
        "example": {"revision": 1, "notes": "Slower than **run 7**: the layout?"},
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def extension_schema() -> dict[str, Any]:
    """The body of Extend for the OpenAPI page."""
    properties = {option["name"]: _json_schema(option) for option in orders.extension_options()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False, "example": {"trials": 64}}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def marks_schema() -> dict[str, Any]:
    """The body that marks a run; `keeping.mark` itself checks it."""
    words = {"type": "array", "items": {"type": "string"}, "maxItems": MOST_TAGS}
    kinds: dict[str, Any] = {"pinned": {"type": "boolean"}, "archived": {"type": "boolean"}}
    schema = {
        "type": "object",
        "properties": {name: kinds.get(name, words) for name in MARKS},
        "additionalProperties": False,
        "example": {"pinned": True, "add_tags": ["baseline"], "remove_tags": ["draft"]},
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def action_schema() -> dict[str, Any]:
    """The body that changes many runs at once; `keeping.act` itself checks it."""
    properties = {
        "action": {"type": "string", "enum": [*TAGGING, *ACTIONS]},
        "runs": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": MOST_RUNS},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "For `tag` and `untag`."},
    }
    schema = {
        "type": "object",
        "required": ["action", "runs"],
        "properties": properties,
        "additionalProperties": False,
        "example": {"action": "tag", "runs": [1, 2, 3], "tags": ["baseline"]},
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _json_schema(option: OptionDict) -> dict[str, Any]:
    kind = {"choice": "string", "integers": "array"}.get(option["type"], option["type"])
    keys = {
        "title": "title",
        "description": "description",
        "minimum": "minimum",
        "maximum": "maximum",
        "enum": "choices",
    }
    found = {key: option[name] for key, name in keys.items() if option.get(name) is not None}  # type: ignore[literal-required]
    if kind == "array":
        bounds = {key: found.pop(key) for key in ("minimum", "maximum")}
        found |= {"items": {"type": "integer", **bounds}, "minItems": 1}
    default = {} if option["default"] is None else {"default": option["default"]}
    return {"type": [kind, "null"] if option["optional"] else kind, **found, **default}
