"""Schedules of auto_scheduler and AutoTVM, whose records tell them without TVM."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from tuning.models import Task
from tuning.reads.records import TrialRecord
from tuning.schedules.knobs import side_by_side
from tuning.schedules.packed import unpacked
from tuning.schedules.steps import Explained, explain

from . import code

AUTOTVM = "autotvm"


def knobs(task: Task) -> dict[str, Any]:
    """The context of the table that has the knobs of AutoTVM's best records side by side; empty for other engines."""
    if task.run.engine != AUTOTVM or task.best_trial is None:
        return {}
    try:
        return {"knobs": side_by_side([record.text for record in task.records.all()])}
    except ValueError as error:
        return {"knobs_error": f"The knobs can’t be shown: {error}."}


def arguments(task: Task) -> dict[str, Any]:
    """The context of the table of the task's arguments, with what packed ones are unpacked."""
    packed = unpacked(task.name, task.args)
    return {"packed": packed, "arguments": list(zip_longest(task.args, packed.tensors if packed else []))}


def opened(engine: str, record: TrialRecord, other: TrialRecord | None) -> dict[str, Any]:
    """The context of an opened record, and of its comparison with another one; `error` if it can't be read."""
    found: dict[str, Any] = {"told": True, "failed": record, "raw": code.indented(record.text)}
    try:
        if engine == AUTOTVM:
            return found | {"own_knobs": side_by_side([record.text])}
        found["explained"] = shown = explain(record.text)
        if other is not None:
            found["failed"] = other
            found |= _compared(explain(other.text), shown)
    except ValueError as error:
        return {**found, "error": f"It can’t be read: {error}."}
    return found


def _compared(before: Explained, after: Explained) -> dict[str, Any]:
    try:
        return {"hunks": code.difference(before.text, after.text)}
    except code.TooLong as error:
        return {"too_long": str(error)}
