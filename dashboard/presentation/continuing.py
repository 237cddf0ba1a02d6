"""What a run that continues another one does differently, in words."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from tuning.models import Run

ARROW = "→"


class Continuation(TypedDict):
    """The run that is continued; whether it has a page still; and what is different: `strategy evolutionary → replay-trace`."""

    run: Run
    kept: bool
    changed: str


def continuation(run: Run) -> Continuation | None:
    """None if the run continues none."""
    if run.continues is None:
        return None
    changed = [
        f"{name} {_value(before)} {ARROW} {_value(now)}" for name, (before, now) in run.changed_options().items()
    ]
    return {"run": run.continues, "kept": run.continues.deleted_at is None, "changed": ", ".join(changed)}


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
