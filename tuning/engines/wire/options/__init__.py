"""What can be chosen about how a run tunes, by engine; here what all engines share. No TVM."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

KEEP_BEST = 8
"""Records of each task that the database keeps; the run's whole record log stays in its work directory."""

TaskIndex = Annotated[int, Meta(ge=0, le=100_000)]
Seed = Annotated[
    Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
    Meta(title="Seed", description="If empty, a seed is drawn at launch and stored, so the run can be repeated."),
]
Tasks = Annotated[
    Annotated[list[TaskIndex], Meta(min_length=1)] | None,
    Meta(
        title="Tasks",
        description="Indices of the tasks to tune, counted from 0, such as 0, 3, 5. The estimated latency then covers "
        "only these. If empty, all tasks are tuned.",
    ),
]
ImportedRecords = Annotated[
    bool,
    Meta(
        title="Imported records",
        description="Also start from records that were imported or streamed. This site hasn't measured them, so their latencies are only claims: "
        "the best ones are measured as trials of this run, and count as they are measured.",
    ),
]
MinRepeat = Annotated[
    int,
    Meta(
        ge=0,
        le=60_000,
        title="Minimum time of a repeat (ms)",
        description="Short functions are executed more often, until one repeat takes at least this long.",
    ),
]
BuildWorkers = Annotated[
    Annotated[int, Meta(ge=1, le=256)] | None,
    Meta(title="Build workers", description="How many candidates are built at once. If empty, one per core."),
]
