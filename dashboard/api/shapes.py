"""Answers that have no shape in `tuning`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal, cast

import msgspec
from django.urls import reverse
from typing_extensions import TypedDict

from dashboard.http.errors import ErrorDict
from dashboard.presentation import recorded
from dashboard.presentation.snippets import SnippetDict
from tuning.models import AuditEntryDict, CompilationDict, Record, RunDict, RunErrorDict, Task, TaskDict, TrialColumns
from tuning.reads import showing
from tuning.reads.course.rankings import RankingDict
from tuning.reads.course.rounds import RoundDict
from tuning.reads.records import TrialRecord
from tuning.reads.showing import Applying, Failed, Generated, Shown

ERRORS: dict[Any, Any] = {400: ErrorDict}
"""All errors have one shape; for the OpenAPI page, which repeats it for their other statuses.

Ninja makes a model for each status of each operation. Made here, they took most of a process's start.
"""


class VariantRuns(TypedDict):
    """Runs that were launched together, in the order in which they are queued, and the tag that all of them have."""

    items: list[RunDict]
    tag: str


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


class RoundPage(TypedDict):
    """`next` goes into `after` for the next page, if there is one."""

    items: list[RoundDict]
    next: int | None


class RankingPage(TypedDict):
    """`next` goes into `after` for the next page, if there is one."""

    items: list[RankingDict]
    next: int | None


class CompilationList(TypedDict):
    """Newest first."""

    items: list[CompilationDict]


class SnippetList(TypedDict):
    items: list[SnippetDict]


class ErrorList(TypedDict):
    """Most frequent first."""

    items: list[RunErrorDict]


class RecordDict(TypedDict):
    """A trial's record. `text` is the engine's own, with the trace; `url` returns its schedule. A failed trial has no latency."""

    trial: int
    latency_s: float | None
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


class StepsDict(TypedDict):
    """auto_scheduler's transform steps in words, and the loops that they give, an indented line each.

    `inlined` names the stages without loops of their own. `trouble` says why the steps end early, if they do.
    """

    steps: list[str]
    loops: list[str]
    inlined: list[str]
    trouble: str | None


class KnobDict(TypedDict):
    """A choice of AutoTVM; `kind` is `split`, `reorder`, `annotate` or `choice`."""

    name: str
    kind: str
    value: str


class RecordDetail(RecordDict):
    """A record with its schedule, which is null unless `status` is `made`.

    While the status is `making`, `step` says what is going on. A failure is reported once, in `error`: asking again tries again.
    `schedule` is MetaSchedule's; a record of auto_scheduler has `steps`, one of AutoTVM has `knobs`.
    """

    status: Literal["making", "made", "failed"]
    step: str | None
    error: str | None
    schedule: ScheduleDict | None
    steps: StepsDict | None
    knobs: list[KnobDict] | None


class HotLoopDict(TypedDict):
    """The loop of assembly that does most of the arithmetic: its lines, from 1, and what is its own, not its inner loops'.

    `fma` counts multiplications with addition and dot products, `arithmetic` other floating-point instructions, `bits` is the width that most
    of them have (0 if the machine decides it), `stack` those of the `loads` and `stores` that are of the stack.
    """

    function: str
    depth: int
    first: int
    last: int
    instructions: int
    fma: int
    arithmetic: int
    bits: int
    loads: int
    stores: int
    stack: int


class ListingDict(TypedDict):
    """One form of the code that was made of a schedule."""

    kind: Literal["tir", "llvm", "asm", "cuda", "ptx", "sass"]
    text: str
    hot_loop: HotLoopDict | None


class OccupancyDict(TypedDict):
    """How many blocks and warps of a kernel a multiprocessor holds at a time by its limits, `most_warps` of any, and which limits allow no more."""

    blocks: int
    warps: int
    most_warps: int
    bounds: list[Literal["warps", "blocks", "registers", "shared memory"]]


class KernelDict(TypedDict):
    """What a CUDA kernel needs: `blocks` of its grid, `threads` and `shared_bytes` of a block, the others of a thread.

    `occupancy` is null for an architecture whose limits aren't known.
    """

    name: str
    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    occupancy: OccupancyDict | None


class KernelsDict(TypedDict):
    """The kernels of a schedule, by an assembler (such as `ptxas 13.0.88`) for an architecture (such as `sm_80`)."""

    assembler: str
    arch: str
    kernels: list[KernelDict]


class CodeDetail(TypedDict):
    """What is made of a record's schedule. `status`, `step` and `error` are as in `RecordDetail`; `listings` is empty unless it is `made`.

    `kernels` is there for CUDA, if ptxas is; `missing` says in sentences what couldn't be made of CUDA, and what to install for it.
    """

    trial: int
    status: Literal["making", "made", "failed"]
    step: str | None
    error: str | None
    listings: list[ListingDict]
    kernels: KernelsDict | None
    missing: list[str]


class TaskDetail(TaskDict):
    """A task with its unscheduled function as TVMScript, and its best records, fastest first."""

    tensorir: str
    records: list[RecordDict]


def task_detail(task: Task) -> TaskDetail:
    records = [_record(task, record) for record in task.records.best_first()]
    return {**task.to_dict(), "tensorir": task.tensorir, "records": records}


def record_detail(task: Task, record: TrialRecord, state: showing.State) -> RecordDetail:
    return {
        **_record(task, record),
        "status": _status(state),
        "step": state.step if isinstance(state, Applying) else None,
        "error": state.error if isinstance(state, Failed) else None,
        "schedule": _schedule(state) if isinstance(state, Shown) else None,
        "steps": None,
        "knobs": None,
    }


def code_detail(trial: int, state: showing.CodeState) -> CodeDetail:
    made = state if isinstance(state, Generated) else Generated([])
    return {
        "trial": trial,
        "status": _status(state),
        "step": state.step if isinstance(state, Applying) else None,
        "error": state.error if isinstance(state, Failed) else None,
        "listings": msgspec.to_builtins(made.listings),
        "kernels": msgspec.to_builtins(made.kernels),
        "missing": made.missing,
    }


def _status(state: showing.State | showing.CodeState) -> Literal["making", "made", "failed"]:
    return "making" if isinstance(state, Applying) else "failed" if isinstance(state, Failed) else "made"


def told_detail(task: Task, record: TrialRecord) -> RecordDetail:
    """A record of auto_scheduler or AutoTVM, which tells its schedule itself."""
    found = recorded.opened(task.run.engine, record, None)
    error: str | None = found.get("error")
    explained, knobs = found.get("explained"), found.get("own_knobs")
    return {
        **_record(task, record),
        "status": "failed" if error else "made",
        "step": None,
        "error": error,
        "schedule": None,
        "steps": cast("StepsDict", asdict(explained)) if explained else None,
        "knobs": [{"name": knob.name, "kind": knob.kind, "value": knob.values[0]} for knob in knobs] if knobs else None,
    }


def _schedule(shown: Shown) -> ScheduleDict:
    decisions: list[DecisionDict] = msgspec.to_builtins(shown.decisions)
    return {"code": shown.code, "decisions": decisions, "tensorir": shown.tensorir, "packs": shown.packs}


def _record(task: Task, record: Record | TrialRecord) -> RecordDict:
    return {
        "trial": record.trial,
        "latency_s": record.latency_s,
        "gflops": record.gflops,
        "url": reverse("api:get_record", args=[task.run_id, task.index, record.trial]),
        "text": record.text,
    }
