"""JSON bodies: read from requests, and described on the OpenAPI page. `tuning.actions` checks what they hold."""

from __future__ import annotations

from typing import Any

import msgspec
from django.http import HttpRequest
from ninja.errors import HttpError

from dashboard.accounts import ROLES
from dashboard.people.tokens import LONGEST_DAYS, Scope
from tuning.actions.checking.checks import LONGEST_NAME as LONGEST_CHECK
from tuning.actions.checking.checks import Plan
from tuning.actions.comparing.side_by_side import Beside
from tuning.actions.curation import Action, Marks
from tuning.actions.editing import Edit
from tuning.actions.launches import templates
from tuning.actions.launches.templates import FromTemplate, Saved
from tuning.actions.launching import Budget, Choice, Extension, NetworkChoice
from tuning.actions.machines import placing
from tuning.actions.projects import LONGEST_NAME
from tuning.engines.wire.compiling import CompileOptions
from tuning.engines.wire.engines import ENGINES
from tuning.streams.messages import MOST_TASKS, MOST_TRIALS, Batch, Ending, Opening, SentTask, SentTrial
from tuning.validation import Invalid, properties_of, schema_of, unknown


def json_object(request: HttpRequest) -> dict[str, Any]:
    """The body. Raises `HttpError` 415 or 400 if it isn't a JSON object."""
    if request.content_type != "application/json":
        raise HttpError(415, "Send JSON, with the header Content-Type: application/json.")
    try:
        return msgspec.json.decode(request.body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, f"The body must be a JSON object: {error}") from error


def fields(request: HttpRequest, *known: str) -> dict[str, Any]:
    """The body. Also raises `Invalid` that names each field that isn't known."""
    body = json_object(request)
    if wrong := unknown(body, known):
        raise Invalid(wrong)
    return body


def _described(
    *structs: type[msgspec.Struct], example: dict[str, Any], elsewhere: tuple[str, ...] = (), **more: dict[str, Any]
) -> dict[str, Any]:
    """An operation's body with the fields of all these structs, and with `more` that it needs.

    Those `elsewhere` may come from a template.
    """
    schemas = list(map(schema_of, structs))
    required = [*(name for each in schemas for name in each["required"] if name not in elsewhere), *more]
    fields = {name: field for each in schemas for name, field in each["properties"].items()}
    return _plain(required, example, **fields, **more)


def _plain(required: list[str], example: dict[str, Any], **fields: dict[str, Any]) -> dict[str, Any]:
    """An operation's body with these fields."""
    schema = {
        "type": "object",
        "required": required,
        "properties": fields,
        "additionalProperties": False,
        "example": example,
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_ENGINES = [engine.options for engine in reversed(ENGINES.values())]
LAUNCH = _described(
    Choice,
    Budget,
    *_ENGINES,
    FromTemplate,
    example={"network": "mlp", "target": "this", "trials": 64, "trials_per_batch": 16, "seed": 1},
    elsewhere=("network",),
)
TEMPLATE = _described(
    Choice, Budget, *_ENGINES, Saved, example={"template": "quick look", "network": "mlp", "trials": 64}
)
TEMPLATE_NAME = _plain(
    ["name"],
    {"name": "quick look"},
    name={"type": "string", "minLength": 1, "maxLength": templates.LONGEST_NAME},
)
_LISTS = {"type": "object", "additionalProperties": {"type": "array"}}
VARIANTS = _described(
    Choice,
    Budget,
    *_ENGINES,
    FromTemplate,
    example={
        "network": "mlp",
        "trials": 64,
        "variants": {"strategy": ["evolutionary", "replay-trace"], "seed": [1, 2, 3]},
    },
    elsewhere=("network",),
    variants=_LISTS | {"description": "By option, the values that it takes; 2 to 24 combinations in all."},
)
PRIORITY = _plain(["priority"], {"priority": "low"}, priority={"type": "string", "enum": list(placing.PRIORITIES)})
EXTRACTION = _described(
    NetworkChoice, example={"network": "resnet-18", "network_options": {"batch": 4}, "target": "this"}
)
NETWORK = _plain(
    ["float_model"],
    {"float_model": 3},
    float_model={"type": ["integer", "null"], "description": "The id of a network of the same project, or null."},
)
SIDE_BY_SIDE = _described(Beside, example={"runs": [1, 2, 3]})
COMPILATION = _described(CompileOptions, example={"source": "run", "choose": "alone"})
EDIT = _described(Edit, example={"revision": 1, "notes": "Slower than **run 7**: the layout?"})
_CHECK: dict[str, dict[str, Any]] = {
    **properties_of(Plan),
    "name": {"type": "string", "minLength": 1, "maxLength": LONGEST_CHECK},
    "at": {
        "type": "string",
        "description": "Time of day in the site's time zone; 02:00 by default.",
        "example": "02:15",
    },
    "options": {
        "type": ["object", "null"],
        "description": "Of the engine, for a check that tunes. What is left out is as in the run.",
    },
}
REGRESSION_CHECK = _plain(
    ["run", "name"],
    {"run": 12, "name": "resnet-18 nightly", "how": "compile", "every": "day", "at": "02:15"},
    run={"type": "integer", "description": "A run's number: it says network, options, target, device and engine."},
    **_CHECK,
)
REGRESSION_CHECK_CHANGE = _plain(
    [],
    {"paused": True},
    paused={"type": "boolean"},
    base={
        "type": ["integer", "null"],
        "description": "A result that all later ones are compared with; null for the median of the last five good ones.",
    },
    **_CHECK,
)
EXTENSION = _described(Extension, example={"trials": 64})
MARKS = _described(Marks, example={"pinned": True, "add_tags": ["baseline"], "remove_tags": ["draft"]})
ACTION = _described(Action, example={"action": "tag", "runs": [1, 2, 3], "tags": ["baseline"]})
STREAM = _described(
    Opening,
    example={
        "stream": "resnet-18 on the board",
        "session": "6f1c0a3e",
        "engine": "autotvm",
        "target": "llvm -mcpu=znver4",
        "network": "resnet-18",
        "versions": {"apache-tvm": "0.9.0"},
    },
)
STREAM_BATCH = _plain(
    ["session"],
    {
        "session": "6f1c0a3e",
        "tasks": [{"key": "dense", "name": "dense_nopack.x86", "weight": 1, "flop": 1024000}],
        "trials": [
            {"number": 1, "task": "dense", "costs_s": [1.25e-5, 1.27e-5], "at": 1756550400.5},
            {"number": 2, "task": "dense", "error_no": 7, "error": "RunTimeout: 10 s"},
        ],
    },
    session=properties_of(Batch)["session"],
    tasks={"type": "array", "maxItems": MOST_TASKS, "items": schema_of(SentTask)},
    trials={"type": "array", "maxItems": MOST_TRIALS, "items": schema_of(SentTrial)},
)
STREAM_END = _described(Ending, example={"session": "6f1c0a3e", "status": "finished"})

_NAME = {"type": "string"}
_ROLE = {"type": "string", "enum": list(ROLES)}
_PROJECT = {"type": ["string", "null"], "description": "By name. Without it: the only one, or with `admin` the site."}
INVITATION = _plain(
    ["name", "role"],
    {"name": "ada", "role": "operator", "project": "vision"},
    name=_NAME,
    role=_ROLE,
    project=_PROJECT,
)
ROLE = _plain(["role"], {"role": "viewer", "project": "vision"}, role=_ROLE, project=_PROJECT)
_PROJECT_NAME = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_SHARED = {"type": "boolean", "description": "Operators may stop and delete each other's runs."}
PROJECT = _plain(["name"], {"name": "vision"}, name=_PROJECT_NAME)
PROJECT_CHANGE = _plain([], {"shared": True}, name=_PROJECT_NAME, shared=_SHARED)
MEMBER = _plain(["name", "role"], {"name": "ada", "role": "operator"}, name=_NAME, role=_ROLE)
MEMBER_ROLE = _plain(["role"], {"role": "admin"}, role=_ROLE)
TOKEN = _plain(
    ["name", "scope"],
    {"name": "nightly", "scope": "launch", "days": 90},
    name=_NAME,
    scope={"type": "string", "enum": Scope.values},
    days={"type": ["integer", "null"], "minimum": 1, "maximum": LONGEST_DAYS},
    project={"type": ["string", "null"], "description": "A project of yours, by name; all of them if left out."},
)
