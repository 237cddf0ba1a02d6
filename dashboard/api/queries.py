"""Query parameters, checked by Ninja."""

from __future__ import annotations

from dataclasses import replace

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja import Field, Schema
from pydantic import ValidationInfo, model_validator

from tuning.actions.curation import MOST_TAGS
from tuning.models import KEEP_BEST, MAX_NUMBER, Compilation, Run
from tuning.reads.audit_log import AuditFilter, Outcome
from tuning.reads.comparing import FEWEST, MOST
from tuning.reads.downloads import EngineName, MergedFormat, RecordsFormat, Which
from tuning.reads.exploring import TrialFilter, TrialOrder
from tuning.reads.library import LibraryFilter, LibraryOrder
from tuning.reads.run_list import RunFilter, RunOrder, Show
from tuning.reads.scatter import POINTS, Window
from tuning.validation import Invalid, unknown

NO_NUL = r"^[^\x00]*$"
"""PostgreSQL can't store this character."""
MOST_MERGED = 100
"""Runs whose records one file may have."""
CURSOR = "`next` of the previous page; filters and order must be the same."


class Query(Schema):
    @model_validator(mode="after")
    def refuse_unknown(self, info: ValidationInfo) -> Query:
        """A misspelled parameter must not be ignored. Raises `Invalid` naming each."""
        known = [field.alias or name for name, field in type(self).model_fields.items()]
        request: HttpRequest = (info.context or {})["request"]
        if wrong := unknown(request.GET, known, "parameter"):
            raise Invalid(wrong)
        return self


class RunQuery(Query):
    status: list[Run.Status] = Field([], description="Any of these; repeat the parameter for each.")
    engine: str | None = Field(None, max_length=30, pattern=NO_NUL)
    q: str = Field(
        "", max_length=200, pattern=NO_NUL, description="Words in the name of the run or its network, or in its notes."
    )
    project: str = Field("", max_length=60, pattern=NO_NUL, description="Only runs of the project with this name.")
    network: str = Field("", max_length=100, pattern=NO_NUL, description="Only runs of the network with this name.")
    target: str = Field("", max_length=64, pattern=NO_NUL, description="Only this target, by its `target_fingerprint`.")
    tag: list[str] = Field(
        [], max_length=MOST_TAGS, description="Runs that have all of these; repeat the parameter for each."
    )
    since: str = Field("", max_length=40, description="First day of the launch in UTC, such as `2026-11-21`.")
    until: str = Field("", max_length=40, description="Last day of the launch.")
    pinned: bool | None = Field(None, description="Only pinned runs, or only the others.")
    show: Show = Field(
        "current",
        description="`current`: runs that aren't archived; `archived`: only those that are; `deleted`: runs that can be restored.",
    )
    order: RunOrder = Field("-created_at", description="Runs without an estimate come last in either direction.")
    cursor: str | None = Field(None, max_length=1000, description=CURSOR)
    limit: int = Field(50, ge=1, le=200)

    def filter(self) -> RunFilter:
        given = self.model_dump(exclude={"limit", "cursor"})
        return RunFilter(**{**given, "status": tuple(self.status), "tag": tuple(self.tag)})


class AuditQuery(Query):
    person: str = Field("", description="The name of the person, as it was at the time.")
    action: str = Field("", description="Such as `run.launch`.")
    object: str = Field("", description="A kind of objects, such as `run`, or one of them, such as `run 7`.")
    outcome: Outcome = Field("", description="Only what was done, or only what was refused.")
    since: str = Field("", description="First day in UTC, such as `2026-11-21`.")
    until: str = Field("", description="Last day.")
    q: str = Field("", description="Words in the names, the action, the address, the token or the reason.")
    cursor: str | None = Field(None, max_length=1000, description=CURSOR)
    limit: int = Field(50, ge=1, le=200)

    def filter(self) -> AuditFilter:
        return AuditFilter(**self.model_dump(exclude={"limit", "cursor"}))


class NetworkQuery(Query):
    project: str = Field(
        "",
        max_length=60,
        pattern=NO_NUL,
        description="Only built-in networks, and models of the project with this name.",
    )


class TrialConditions(Query):
    """By which both a table and a chart choose among a run's trials."""

    failed: bool | None = Field(None, description="Only failed trials, or only measured ones.")
    improved: bool | None = Field(
        None, description="Only trials that were their task's best when measured, or only the others."
    )
    noisy: bool | None = Field(
        None,
        description="Only trials that were measured while others' processes used more than a quarter of the machine, or only the others.",
    )
    machine: str = Field(
        "", max_length=63, pattern=NO_NUL, description="Only trials that the machine of this name measured."
    )


class TrialQuery(TrialConditions):
    after: int = Field(0, ge=0, le=MAX_NUMBER, description="Only trials with a higher number.")
    limit: int = Field(1000, ge=1, le=10_000)
    task: int | None = Field(None, ge=0, le=MAX_NUMBER, description="The task's index.")
    min: float | None = Field(None, ge=0, allow_inf_nan=False, description="Minimum latency in seconds.")
    max: float | None = Field(None, ge=0, allow_inf_nan=False, description="Maximum latency in seconds.")
    order: TrialOrder = Field(
        "number",
        description="`latency_s` leaves out failed trials; `task` sorts the trials of each task by number.",
    )
    cursor: str | None = Field(None, max_length=1000, description=CURSOR)

    def filter(self) -> TrialFilter:
        return TrialFilter(**self.model_dump(exclude={"limit", "cursor"}))


class CurveQuery(Query):
    points: int = Field(
        2000,
        ge=10,
        le=20_000,
        description="Trials in the scatter, if the run has as many. Best-so-far curves are always exact.",
    )


class CourseQuery(Query):
    after: int = Field(0, ge=0, le=2**63 - 1, description="`next` of the previous page.")
    limit: int = Field(500, ge=1, le=2000)


class RankingQuery(CourseQuery):
    task: int | None = Field(None, ge=0, le=MAX_NUMBER, description="The task's index; by default, all tasks.")


class ScatterQuery(TrialConditions):
    first: int = Field(1, alias="from", ge=1, le=MAX_NUMBER, description="Number of the first trial.")
    last: int | None = Field(
        None, alias="to", ge=1, le=MAX_NUMBER, description="Number of the last trial; by default, the run's last."
    )
    min: float | None = Field(None, ge=0, allow_inf_nan=False, description="Minimum latency in seconds.")
    max: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Maximum latency in seconds. Failed trials are part of any range, unless `failed` is false.",
    )
    task: list[int] = Field([], description="Only these tasks, by index; repeat the parameter for each.")
    points: int = Field(POINTS, ge=100, le=20_000, description="Most trials in the answer.")

    def window(self) -> Window:
        given = self.model_dump(exclude={"task", "points"})
        return Window(**given, tasks=tuple(self.task))


class MergeQuery(Query):
    runs: str = Field("", max_length=1000, description=f"1 to {MOST_MERGED} runs of one engine by their ids: `1,2,3`.")
    format: MergedFormat = Field(
        "native",
        description="`native`: as the engine's own tools read them. `tophub`: a zip with a log for each target that has the best record of "
        "each of AutoTVM's workloads.",
    )
    which: Which = Field("best", description="The best records of each workload and target, or those of all trials.")
    k: int | None = Field(
        None, ge=1, le=KEEP_BEST, description=f"Number of best records of each workload; by default {KEEP_BEST}."
    )


class CompareQuery(Query):
    runs: str = Field("", max_length=1000, description=f"{FEWEST} to {MOST} runs by their ids: `1,2,3`.")
    baseline: int | None = Field(
        None, description="The run that the others are compared with; by default, the first one."
    )


class LibraryConditions(Query):
    q: str = Field(
        "", max_length=200, pattern=NO_NUL, description="Words in the name of a task or network, or a workload hash."
    )
    network: str = Field("", max_length=100, pattern=NO_NUL, description="Only workloads of this network.")
    target: str = Field("", max_length=64, pattern=NO_NUL, description="Only this target, by its `target_fingerprint`.")
    imported: bool = Field(
        default=False,
        description="Also records that were imported or streamed, whose latencies this site hasn't measured.",
    )

    def filter(self, user: User) -> LibraryFilter:
        return LibraryFilter(user, self.q, self.network, self.target, imported=self.imported)


class LibraryRecordsQuery(LibraryConditions):
    engine: EngineName = Field(
        "meta_schedule",
        description="`meta_schedule`: a zip of its two database files. Others: a log as their tools read it.",
    )


class LibraryQuery(LibraryConditions):
    order: LibraryOrder = Field("name", description="`run` is the run that has the best record.")
    offset: int = Field(0, ge=0, le=MAX_NUMBER)
    limit: int = Field(50, ge=1, le=200)

    def filter(self, user: User) -> LibraryFilter:
        return replace(super().filter(user), order=self.order)


class SourceQuery(Query):
    source: Compilation.Source = Field(Compilation.Source.RUN, description="As in `POST …/compilations`.")


class ConsoleQuery(Query):
    after: int | None = Field(None, ge=0, le=2**63 - 1, description="Byte offset; by default, the end of the log.")


class TaskQuery(Query):
    task: int | None = Field(None, ge=0, le=MAX_NUMBER, description="The task's index; by default, all tasks.")


class RecordQuery(TaskQuery):
    format: RecordsFormat = Field(
        "native",
        description="`native`: as the engine's own tools read them, a zip of MetaSchedule's two files or one log. `jsonl`: JSON lines.",
    )
    which: Which = Field("best", description="The best records of each task, or those of all trials.")
    k: int | None = Field(
        None, ge=1, le=KEEP_BEST, description=f"Number of best records of each task; by default {KEEP_BEST}."
    )
