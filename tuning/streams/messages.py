"""What scripts send, and the tasks and trials that it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar, Union, cast

import msgspec
from msgspec import Meta

from tuning.logs import errors, neutral, targets
from tuning.logs.databases import UNKNOWN_HASH
from tuning.logs.lines import LineParser
from tuning.logs.neutral import EngineName
from tuning.logs.reading import digest, mean
from tuning.logs.workloads import parsed
from tuning.records import RecordRefused
from tuning.validation import Invalid

Message = TypeVar("Message", bound=msgspec.Struct)
MOST_TRIALS = 1000
"""In one message."""
MOST_TASKS = 10_000
"""Of one run."""
Moment = Annotated[float, Meta(ge=0, lt=253402300800)]
"""Seconds since 1970, before the year 10000."""
SessionKey = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$")]
Short = Annotated[str, Meta(max_length=200)]


class Opening(msgspec.Struct, forbid_unknown_fields=True):
    """What a stream is about."""

    stream: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description="Your name for the run: whoever gives it again, in the same project, continues the run.",
        ),
    ]
    session: Annotated[SessionKey, Meta(description="Drawn anew by each process. It numbers its own trials from 1.")]
    engine: Literal["auto_scheduler", "autotvm", "meta_schedule"]
    target: Annotated[
        Union[Annotated[str, Meta(min_length=1, max_length=4000)], dict[str, Any]],
        Meta(description="As TVM writes it: `llvm -mcpu=znver4`, or an object with its `kind`."),
    ]
    network: Annotated[Annotated[str, Meta(max_length=100)] | None, Meta(description="What the network is called.")] = (
        None
    )
    name: Annotated[Short | None, Meta(description="The run's name. By default, the network's or the engine's.")] = None
    project: Annotated[
        Short | None, Meta(description="By name. It can be left out by those who may launch in only one.")
    ] = None
    versions: Annotated[
        dict[Short, Short], Meta(max_length=50, description="By package, such as `apache-tvm` and `python`.")
    ] = {}
    started_at: Annotated[
        Moment | None, Meta(description="When the process began, by its own clock, in seconds since 1970.")
    ] = None


class SentTask(msgspec.Struct, forbid_unknown_fields=True):
    """A task, before its first trial. What isn't known is left out."""

    key: Annotated[str, Meta(min_length=1, max_length=200, description="What its trials call it.")]
    name: Annotated[str, Meta(max_length=500)] | None = None
    weight: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    flop: Annotated[float, Meta(ge=0)] | None = None
    workload: Annotated[
        str | None,
        Meta(
            description="By which the same task is found in other runs. AutoTVM: JSON of `[name, args, kwargs]`; "
            "auto_scheduler: its `workload_key`; MetaSchedule: the line of its workload file."
        ),
    ] = None


class SentTrial(msgspec.Struct, forbid_unknown_fields=True):
    """A trial: it has `costs_s`, or else an error."""

    number: Annotated[int, Meta(ge=1, le=2**31 - 1, description="From 1, without gaps, in this session.")]
    task: str
    costs_s: Annotated[list[float], Meta(min_length=1, max_length=10_000)] | None = None
    error_kind: Annotated[str | None, Meta(description=f"One of {', '.join(errors.KINDS)}.")] = None
    error_no: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        Meta(description="Instead of `error_kind`: the number that the engine gives."),
    ] = None
    error: Annotated[str, Meta(max_length=65_536)] | None = None
    at: Annotated[Moment | None, Meta(description="By the same clock as `started_at`.")] = None
    record: Annotated[
        str | None,
        Meta(
            description="The line that the engine would write. MetaSchedule: the record without its workload's number."
        ),
    ] = None


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """Tasks and trials. An empty one says that the script is alive."""

    session: SessionKey
    tasks: Annotated[list[SentTask], Meta(max_length=MOST_TASKS)] = []
    trials: Annotated[list[SentTrial], Meta(max_length=MOST_TRIALS)] = []


class Ending(msgspec.Struct, forbid_unknown_fields=True):
    """How a session ended. `interrupted`: its process was killed."""

    session: SessionKey
    status: Literal["finished", "stopped", "failed", "interrupted"] = "finished"
    error: Annotated[str, Meta(max_length=65_536)] | None = None


def read(kind: type[Message], given: Mapping[str, Any]) -> Message:
    """The message. Raises `Invalid` that names the first field at fault."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise Invalid({where.strip(".`") or _named_in(what): f"{what}."}) from error


def _named_in(text: str) -> str:
    """The field that a message about the whole object names."""
    return text.split("`")[1] if text.count("`") >= 2 else "body"


def target_of(given: str | dict[str, Any]) -> dict[str, Any]:
    """Raises `Invalid`."""
    try:
        return targets.parsed(given if isinstance(given, str) else msgspec.json.encode(given).decode())
    except ValueError as error:
        raise Invalid({"target": f"{error}."}) from error


def task_of(engine: EngineName, target: dict[str, Any], sent: SentTask) -> neutral.Task:
    """The task as logs tell of it, so that it is the same as in an imported run. Raises `Invalid`."""
    task = _of_workload(engine, target, sent) if sent.workload else None
    if task is None:
        hashed = UNKNOWN_HASH + digest(engine, sent.key)
        task = neutral.Task(key=sent.key, workload_hash=hashed, engine=engine, target=target)
    told = {name: value for name in ("name", "weight", "flop") if (value := getattr(sent, name)) is not None}
    derived = task.flop_derived and sent.flop is None
    return msgspec.structs.replace(task, **told, flop_derived=derived)


def _of_workload(engine: EngineName, target: dict[str, Any], sent: SentTask) -> neutral.Task:
    wrong = Invalid({f"tasks.{sent.key}.workload": f"It isn't what {engine} calls a workload."})
    try:
        if engine == "meta_schedule":
            return _of_line(cast("str", sent.workload), target, sent.key)
        record = _record(engine, cast("str", sent.workload), target)
    except RecordRefused as refused:
        raise Invalid({f"tasks.{sent.key}.workload": f"It can't be used: {refused}."}) from refused
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise wrong from error
    parser = LineParser("stream", engine)
    parser.parse_line(record)
    if not parser.tasks:
        raise wrong
    return next(iter(parser.tasks.values()))


def _of_line(line: str, target: dict[str, Any], key: str) -> neutral.Task:
    known = parsed(line.encode())
    return neutral.Task(
        key=key,
        workload_hash=known.workload_hash,
        engine="meta_schedule",
        target=target,
        args=known.args or (),
        workload=known.line,
    )


def _record(engine: EngineName, workload: str, target: dict[str, Any]) -> bytes:
    """A failed record of the workload, as the engine writes it: what reads logs knows what a workload says."""
    as_text = msgspec.json.encode(target).decode()
    if engine == "auto_scheduler":
        return msgspec.json.encode({"i": [[workload, as_text], [[], []]], "r": [[1e10], 8, 0, 0], "v": "v0.6"})
    name, args, kwargs = msgspec.json.decode(workload)
    config: dict[str, Any] = {"index": 0, "code_hash": None, "entity": []}
    value = {"input": [as_text, name, args, kwargs], "config": config, "result": [[1e9], 8, 0, 0], "version": 0.2}
    return msgspec.json.encode(value)


def outcome_of(engine: EngineName, sent: SentTrial, place: int) -> tuple[float | None, str | None]:
    """Latency in seconds or the kind of error. Raises `Invalid`. `place`: where it is in the message."""
    if sent.error_kind is not None and sent.error_kind not in errors.KINDS:
        known = ", ".join(errors.KINDS)
        raise Invalid({f"trials[{place}].error_kind": f"There is no kind {sent.error_kind!r}. Known: {known}."})
    kind = sent.error_kind or (errors.named(engine, sent.error_no).kind if sent.error_no else None)
    if (kind is None) == (sent.costs_s is None):
        raise Invalid({f"trials[{place}]": "It must have either costs_s or an error."})
    if kind:
        return None, kind
    latency_s = mean(cast("Sequence[Any]", tuple(sent.costs_s or ())))  # type: ignore[arg-type]
    usable = latency_s is not None and isfinite(latency_s)
    return (latency_s, None) if usable else (None, errors.NO_LATENCY.kind)
