"""Where the time of a run went: in all, by task, and over the run. Summed by the database, since long runs have many rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, F, FloatField, Max, Min, QuerySet, Sum
from django.db.models.functions import Coalesce
from typing_extensions import TypedDict

from tuning.models import PARTS, Round, Run

PIECES = 150
"""Most pieces that a run is divided into for the band."""
BESIDE = ("beside_build_s", "beside_measure_s")


class PartsDict(TypedDict):
    """Seconds of what the engine did.

    `other_s` is overhead; `start_s` is the time before a process's first round; in `again_s`, records were measured again: the reference, and
    those that are confirmed. They sum up to the time. What a pool's machines or background threads did meanwhile is in `beside_…`, summed
    over devices.
    """

    start_s: float
    search_s: float
    learn_s: float
    build_s: float
    measure_s: float
    again_s: float
    wait_s: float
    other_s: float
    beside_build_s: float
    beside_measure_s: float


class RoundDict(PartsDict):
    """A round with its task's index (null: the start of a process, or confirming), and the trials of the run that had ended when it `began_s`."""

    id: int
    task: int | None
    done: int
    candidates: int
    began_s: float
    ended_s: float


class TaskTimeDict(PartsDict):
    """What a task's rounds took: `s` in all."""

    task: int
    rounds: int
    candidates: int
    s: float


class PieceDict(PartsDict):
    """Some rounds in a row: the first began after `done` trials. `unknown_s` belongs to no recorded round."""

    done: int
    began_s: float
    ended_s: float
    unknown_s: float


class TimeDict(TypedDict):
    """`total` covers `recorded_s` of the run's time.

    `rest_s` is in no recorded round: the one that goes on, one of a process that was killed, and how long processes took to start and end.
    """

    total: PartsDict
    recorded_s: float
    rest_s: float
    tasks: list[TaskTimeDict]
    pieces: list[PieceDict]


def rounds(run: Run, after: int, limit: int) -> list[RoundDict]:
    """The run's rounds with a higher id, oldest first."""
    found = run.rounds.filter(pk__gt=after).select_related("task").defer("task__tensorir", "task__args")[:limit]
    return [_round(one) for one in found]


def time_of(run: Run) -> TimeDict | None:
    """Where the time went so far; None if that isn't recorded."""
    every = run.rounds.order_by()
    whole = every.aggregate(**_sums())
    if not whole["rounds"]:
        return None
    starts = every.filter(task__isnull=True).aggregate(**_sums())
    recorded_s = whole["s"]
    return {
        "total": _parts(whole, starts["s"] - starts["sum_again_s"]),
        "recorded_s": recorded_s,
        "rest_s": max(0.0, (run.elapsed_s or 0.0) - recorded_s),
        "tasks": [_task(row) for row in _by_task(every)],
        "pieces": _pieces(run, every),
    }


def _sums() -> dict[str, Any]:
    length = Sum(F("ended_s") - F("began_s"), output_field=FloatField())
    return {
        "s": Coalesce(length, 0.0),
        "rounds": Count("pk"),
        **{f"sum_{name}": Coalesce(Sum(name), 0.0) for name in (*PARTS, *BESIDE)},
    }


def _parts(sums: Mapping[str, Any], start_s: float) -> PartsDict:
    known = {name: sums[f"sum_{name}"] for name in (*PARTS, *BESIDE)}
    other_s = sums["s"] - start_s - sum(known[name] for name in PARTS)
    return {"start_s": start_s, **known, "other_s": max(0.0, other_s)}  # type: ignore[typeddict-item]


def _round(one: Round) -> RoundDict:
    length = one.ended_s - one.began_s
    sums = {"s": length, **{f"sum_{name}": getattr(one, name) for name in (*PARTS, *BESIDE)}}
    return {
        **_parts(sums, length - one.again_s if one.task is None else 0.0),
        "id": one.pk,
        "task": None if one.task is None else one.task.index,
        "done": one.done,
        "candidates": one.candidates,
        "began_s": one.began_s,
        "ended_s": one.ended_s,
    }


def _by_task(every: QuerySet[Round]) -> list[Mapping[str, Any]]:
    rows = every.filter(task__isnull=False).values("task__index").annotate(tried=Sum("candidates"), **_sums())
    return list(rows.order_by("task__index"))


def _task(row: Mapping[str, Any]) -> TaskTimeDict:
    return {
        **_parts(row, 0.0),
        "task": row["task__index"],
        "rounds": row["rounds"],
        "candidates": row["tried"],
        "s": row["s"],
    }


def _pieces(run: Run, every: QuerySet[Round]) -> list[PieceDict]:
    """Pieces of as many trials each; those of the start come first."""
    size = max(1, -(-run.trials_done // PIECES))
    grouped = every.annotate(piece=F("done") / size).values("piece")
    ends = {"first": Min("done"), "from_s": Min("began_s"), "to_s": Max("ended_s")}
    without = grouped.filter(task__isnull=True).annotate(s=_sums()["s"] - Sum("again_s"))
    starts = dict(without.values_list("piece", "s"))
    rows = grouped.annotate(**ends, **_sums()).order_by("piece")
    return [_piece(row, starts.get(row["piece"], 0.0)) for row in rows]


def _piece(row: Mapping[str, Any], start_s: float) -> PieceDict:
    return {
        **_parts(row, start_s),
        "done": row["first"],
        "began_s": row["from_s"],
        "ended_s": row["to_s"],
        "unknown_s": max(0.0, row["to_s"] - row["from_s"] - row["s"]),
    }
