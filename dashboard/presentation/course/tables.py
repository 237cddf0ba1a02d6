"""Where a run's time went, as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tuning.models import Run
from tuning.reads.course.rounds import PartsDict, TimeDict

from .figures import PARTS

COLUMNS = (
    *("search_s", "learn_s", "build_s", "measure_s", "again_s", "wait_s", "other_s"),
    *("beside_build_s", "beside_measure_s"),
)
BESIDE = {"beside_build_s": "Built beside", "beside_measure_s": "Measured beside"}


class Column(NamedTuple):
    name: str
    words: str
    role: str
    """Gives it its color; empty for what was done beside the engine's thread, which isn't part of the band."""


class Cell(NamedTuple):
    seconds: float
    share: float | None
    """Of the row's time; None of what was done beside it."""


class Row(NamedTuple):
    """A task's time, or that of the whole run."""

    task: int | None
    name: str
    seconds: float
    share: float | None
    """Of the run's time."""
    cells: list[Cell]
    speed: float | None
    """Trials a second of the rounds' time."""


def columns(found: TimeDict) -> list[Column]:
    """Those that say something: where nothing waits or is done beside, these are left out."""
    total: Mapping[str, Any] = found["total"]
    always = ("search_s", "build_s", "measure_s")
    shown = [name for name in COLUMNS if name in always or total[name] > 0]
    return [Column(name, *PARTS.get(name, (BESIDE.get(name, ""), ""))) for name in shown]


def rows(run: Run, found: TimeDict) -> list[Row]:
    """The row of all rounds, then the tasks'."""
    shown = columns(found)
    names = dict(run.tasks.values_list("index", "name"))
    whole_s = found["recorded_s"] + found["rest_s"]
    tasks = [
        Row(
            one["task"],
            names.get(one["task"], ""),
            one["s"],
            one["s"] / whole_s if whole_s else None,
            _cells(one, shown, one["s"]),
            one["candidates"] / one["s"] if one["s"] else None,
        )
        for one in found["tasks"]
    ]
    rounds_s = found["recorded_s"] - found["total"]["start_s"]
    tried = sum(one["candidates"] for one in found["tasks"])
    share = rounds_s / whole_s if whole_s else None
    speed = tried / rounds_s if rounds_s else None
    return [Row(None, "All rounds", rounds_s, share, _cells(found["total"], shown, rounds_s), speed), *tasks]


def _cells(parts: PartsDict | Mapping[str, Any], shown: list[Column], whole_s: float) -> list[Cell]:
    return [
        Cell(parts[column.name], parts[column.name] / whole_s if column.role and whole_s else None)  # type: ignore[literal-required,unused-ignore]
        for column in shown
    ]


def total(found: TimeDict, *, live: bool) -> list[tuple[str, str, float, float]]:
    """The parts of the whole time that took any: their words, role, seconds and share. The current round of a live run isn't told yet."""
    seconds: dict[str, float] = {**found["total"], "unknown_s": found["rest_s"]}  # type: ignore[dict-item]
    whole_s = found["recorded_s"] + found["rest_s"]
    return [
        (f"{words} yet" if live and name == "unknown_s" else words, role, seconds[name], seconds[name] / whole_s)
        for name, (words, role) in PARTS.items()
        if whole_s and seconds[name] > 0
    ]
