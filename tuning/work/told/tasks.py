"""Tasks as somebody else's log tells of them: much may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tuning.logs import neutral
from tuning.models import storable
from tuning.models.shapes import NUL

LONGEST_NAME = 500


class ToldTask(msgspec.Struct, frozen=True):
    """One task of a log. `index` counts from 0, in order of appearance."""

    index: int
    task: neutral.Task
    weight: int | None = None
    """As the user says it, where the log doesn't."""

    def columns(self) -> dict[str, Any]:
        """The values of the columns of `Task`."""
        task = self.task
        return {
            "index": self.index,
            "name": shown_name(task),
            "weight": self.weight if task.weight is None else task.weight,
            "flop": task.flop,
            "flop_derived": task.flop_derived,
            "workload_hash": task.workload_hash,
            "args": as_json(task.args),
            "workload": None if task.engine == "meta_schedule" else as_json(task.workload),
        }


def shown_name(task: neutral.Task) -> str:
    """What the task is called here; the beginning of its hash where the log has no name."""
    return storable(task.name or f"task {task.workload_hash[:8]}")[:LONGEST_NAME]


def as_json(value: Any) -> Any:
    """The value as JSON that both databases store."""
    return msgspec.json.decode(msgspec.json.encode(value).replace(rb"\u0000", NUL.encode()))


class TasksTold(msgspec.Struct, frozen=True):
    """For the recorder: tasks that a log has told of. Those with a known index are left as they are."""

    target: Mapping[str, Any] | None
    """None if the log has none."""
    tasks: list[ToldTask]
